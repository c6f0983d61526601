"""A board on the shared file system: one file a value, in a folder for us alone."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from muster.clusters.doctor.ranks import Topic
from muster.environment_variables import RUNS_DIR_VARIABLE
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
                "    choose a folder that all hosts share and you can write to: "
                f"--runs-dir or {RUNS_DIR_VARIABLE}"
            ) from None
        return self

    def put(self, topic: Topic, value: Any, rank: int | None = None) -> None:
        write_text(self._file(topic, rank), json.dumps(value), durable=False, private=True)

    def get(self, topic: Topic, rank: int | None = None) -> Any | None:
        try:
            return json.loads(self._file(topic, rank).read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return None

    def ranks(self, topic: Topic) -> set[int]:
        """Return the ranks that have written of a topic."""
        found = (path.stem.removeprefix(f"{topic}-") for path in refreshed(self.path).glob(f"{topic}-*.json"))
        return {int(rank) for rank in found if rank.isdecimal()}

    def is_open(self) -> bool:
        return refreshed(self.path).is_dir()

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def _file(self, topic: Topic, rank: int | None) -> Path:
        return self.path / (f"{topic}.json" if rank is None else f"{topic}-{rank}.json")


def refreshed(folder: Path) -> Path:
    """Make a network file system look again at what a folder holds."""
    with suppress(OSError):
        os.close(os.open(folder, os.O_RDONLY))
    return folder
