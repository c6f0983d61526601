"""A run's code on hosts that do not see its folder: Ray brings a copy to each, and names are looked up in that.

The head knows the code by a folder on its own disk, which experiments, networks and saved states name. A worker
finds the same files in the copy that came with its runtime environment.
"""

from __future__ import annotations

import os
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from muster.environment_variables import CODE_COPY_VARIABLE, CODE_SEARCH_PATH_VARIABLE, SHIPPED_CODE_VARIABLE

_FOLDER = "code"
"""In the copy: nothing in it is imported by accident, for its folder alone is on Ray's own search path."""


def shipped_folder() -> Path | None:
    """Return the folder of the code that workers need a copy of; None if they see it, or need none."""
    folder = os.environ.get(SHIPPED_CODE_VARIABLE)
    return Path(folder) if folder and CODE_COPY_VARIABLE not in os.environ else None


def pack_code(folder: Path, archive: Path) -> dict[str, Any]:
    """Pack the code; return the runtime environment that brings it to every worker."""
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(folder, _FOLDER)
    search_path = _inside(os.environ.get("PYTHONPATH", "").split(os.pathsep), folder)
    return {
        "working_dir": str(archive),
        "env_vars": {
            SHIPPED_CODE_VARIABLE: str(folder),
            CODE_SEARCH_PATH_VARIABLE: os.pathsep.join(search_path),
        },
        "worker_process_setup_hook": f"{__name__}.{settle.__name__}",
    }


def settle() -> None:
    """Begin a worker's process: its folder holds the copy."""
    os.environ[CODE_COPY_VARIABLE] = str(Path.cwd() / _FOLDER)
    search = os.environ.get(CODE_SEARCH_PATH_VARIABLE, "").split(os.pathsep)
    sys.path[:0] = [placed(path) for path in search if path]


def placed(path: str) -> str:
    """Return where a file or folder of the code is here; others are where they are."""
    folder, copy = os.environ.get(SHIPPED_CODE_VARIABLE), os.environ.get(CODE_COPY_VARIABLE)
    if not folder or not copy or not Path(path).is_relative_to(folder):
        return path
    return str(Path(copy) / Path(path).relative_to(folder))


def _inside(paths: Sequence[str], folder: Path) -> list[str]:
    return [path for path in paths if path and Path(path).is_relative_to(folder)]
