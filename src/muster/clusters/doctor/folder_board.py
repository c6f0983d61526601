"""A board on the shared file system: one file a value, in a folder for us alone."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from muster.errors import ClusterError
from muster.runs.files import write_text


class FolderBoard:
    """The folder and its files; every one is written as a whole."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self) -> FolderBoard:
        """Make the folder, whichever rank is first; return this.

        Raises:
            ClusterError: if it cannot be made.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ClusterError(
                f"{self.path}: the ranks cannot meet there: {error.strerror}\n"
                "    choose a folder that all hosts share and you can write to: --runs-dir or MUSTER_RUNS_DIR"
            ) from None
        return self

    def put(self, name: str, value: Any) -> None:
        write_text(self.path / f"{name}.json", json.dumps(value), durable=False, private=True)

    def get(self, name: str) -> Any | None:
        try:
            return json.loads((self.path / f"{name}.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return None

    def names(self, prefix: str) -> set[str]:
        return {path.stem.removeprefix(prefix) for path in refreshed(self.path).glob(f"{prefix}*.json")}

    def is_open(self) -> bool:
        return refreshed(self.path).is_dir()

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def refreshed(folder: Path) -> Path:
    """Make a network file system look again at what a folder holds."""
    with suppress(OSError):
        os.close(os.open(folder, os.O_RDONLY))
    return folder
