"""Where the ranks of one launch meet: a folder on the shared file system, named by the launch."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from muster.errors import ClusterError
from muster.runs.files import write_text

POLL_SECONDS = 0.05

T = TypeVar("T")


@dataclass(frozen=True)
class RankCard:
    """What a rank tells the others of itself."""

    rank: int
    host: str
    local_rank: int | None
    pid: int
    affinity: list[int]
    scheduler_cpus: int | None
    cgroup_cpus: int | None
    gpus: int
    memory: int | None
    python: str
    ray: str
    muster: str
    time: float


class Meeting:
    """The folder and its files; every one is written as a whole."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self) -> None:
        """Make the folder, for us alone; whichever rank is first.

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

    def put(self, name: str, value: Any) -> None:
        """Write a file for the others to read."""
        write_text(self.path / f"{name}.json", json.dumps(value), durable=False)

    def get(self, name: str) -> Any | None:
        """Return what a file says, or None if it is not there."""
        try:
            return json.loads((self.path / f"{name}.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return None

    def join(self, card: RankCard) -> None:
        """Tell the others that a rank is here."""
        self.put(f"rank-{card.rank}", asdict(card))

    def cards(self) -> dict[int, RankCard]:
        """Return the ranks that are here."""
        found = {}
        for path in _refreshed(self.path).glob("rank-*.json"):
            if (card := self.get(path.stem)) is not None:
                found[card["rank"]] = RankCard(**card)
        return found

    def names(self, prefix: str) -> set[str]:
        """Return the files whose names begin so, without prefix and ending."""
        return {path.stem.removeprefix(prefix) for path in _refreshed(self.path).glob(f"{prefix}*.json")}

    def is_open(self) -> bool:
        """Whether the folder is still there."""
        return _refreshed(self.path).is_dir()

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)


def wait_for(look: Callable[[], T | None], seconds: float) -> T | None:
    """Look many times a second until there is something, at most so long."""
    deadline = time.monotonic() + seconds
    while (found := look()) is None and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return found


def _refreshed(folder: Path) -> Path:
    """Make a network file system look again at what a folder holds."""
    with suppress(OSError):
        os.close(os.open(folder, os.O_RDONLY))
    return folder
