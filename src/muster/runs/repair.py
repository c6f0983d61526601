"""Before a run is resumed: rename whatever stands in the place of a record and cannot be read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from muster.errors import InputError
from muster.files.regular import is_folder, is_regular, is_there, odd_kind, read_bytes
from muster.runs.files import explained
from muster.runs.folder import RunFolder
from muster.runs.metrics import parse_metrics

Notice = Callable[[str], None]


def repair(folder: RunFolder, notice: Notice) -> None:
    """Make way for the records that a resumed run writes.

    Raises:
        InputError: if there may be checkpoints, but they cannot be read.
    """
    if is_folder(folder.checkpoints) and not os.access(folder.checkpoints, os.R_OK | os.W_OK | os.X_OK):
        raise InputError(f"{folder.checkpoints}: no permission to read and write it\n    chmod u+rwx it")
    files = (
        folder.sources,
        folder.versions,
        folder.status,
        folder.metrics,
        folder.evaluations,
        folder.events,
        folder.experiment,
    )
    for path in files:
        if (what := odd_kind(path)) is not None:
            set_aside(path, f"is {what}", notice)
        elif is_there(path) and not os.access(path, os.R_OK | os.W_OK):
            set_aside(path, "cannot be read and written: no permission", notice)
    if is_there(folder.metrics) and (problem := _metrics_problem(folder.metrics)):
        set_aside(folder.metrics, problem, notice)
    for path in (folder.tensorboard, folder.failures, folder.simulators, folder.checkpoints):
        if is_there(path) and not is_folder(path):
            set_aside(path, f"is {odd_kind(path) or 'a file'}, expected a folder", notice)
    if not is_folder(folder.journals) or not all(map(is_regular, folder.journals.iterdir())):
        remove(folder.journals)


def set_aside(path: Path, problem: str, notice: Notice) -> None:
    """Rename what is damaged, and say so."""
    target = path.with_name(f"{path.name}.damaged")
    number = 1
    while is_there(target):
        number += 1
        target = path.with_name(f"{path.name}.damaged-{number}")
    with explained(path):
        path.rename(target)
    notice(f"{path}: {problem}; kept as {target.name}")


def remove(path: Path) -> None:
    """Remove a file, link or folder, if there is one."""
    if is_folder(path) and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    elif is_there(path):
        with explained(path):
            path.unlink()


def _metrics_problem(path: Path) -> str | None:
    try:
        parse_metrics(read_bytes(path))
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
    return None
