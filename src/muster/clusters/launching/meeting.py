"""Where the ranks of one launch meet: a board of named values, on a shared folder or in the head's memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeVar

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


class Board(Protocol):
    """Named values that all ranks of one launch read and write, each as a whole; nobody else can."""

    def put(self, name: str, value: Any) -> None:
        """Write a value for the others to read."""

    def get(self, name: str) -> Any | None:
        """Return a value, or None if it is not there or the board does not answer."""

    def names(self, prefix: str) -> set[str]:
        """Return the names that begin so, without the prefix."""

    def is_open(self) -> bool:
        """Whether the board is still there; one that merely does not answer is."""

    def close(self) -> None:
        """Take the board away, or leave it if it is another's."""


class Meeting:
    """The ranks at their board."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self.put, self.get, self.names = board.put, board.get, board.names
        self.is_open, self.close = board.is_open, board.close

    def join(self, card: RankCard) -> None:
        """Tell the others that a rank is here."""
        self.put(f"rank-{card.rank}", asdict(card))

    def cards(self) -> dict[int, RankCard]:
        """Return the ranks that are here."""
        found = {}
        for rank in self.names("rank-"):
            if (card := self.get(f"rank-{rank}")) is not None:
                found[card["rank"]] = RankCard(**card)
        return found


def wait_for(look: Callable[[], T | None], seconds: float) -> T | None:
    """Look many times a second until there is something, at most so long."""
    deadline = time.monotonic() + seconds
    while (found := look()) is None and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return found
