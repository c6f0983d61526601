"""`muster launch` on one rank: take the signals, meet the others, lead or follow."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from muster.clusters.allocation.model import Allocation
from muster.clusters.launching.head import Head
from muster.clusters.launching.member import Member
from muster.clusters.launching.options import LaunchOptions
from muster.clusters.launching.rank import Rank

REPEATED_SIGNAL_SECONDS = 1.0
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2)


def launch(allocation: Allocation, options: LaunchOptions, launch_id: str) -> int:
    """Do this rank's part in a launch; return the exit code of its command.

    Raises:
        ClusterError: on the head's rank, if the cluster does not come up.
    """
    signals = Signals()
    with signals.taken():
        rank = Rank(allocation, options, launch_id)
        rank.join()
        return Head(rank, signals.take).lead() if rank.is_head else Member(rank).follow()


class Signals:
    """The signals that came: the head forwards them to the command, the other ranks leave them to the head."""

    def __init__(self) -> None:
        self._waiting: list[signal.Signals] = []
        self._last: dict[int, float] = {}

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take the signals for a while."""
        previous = {number: signal.signal(number, self._note) for number in FORWARDED}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def take(self) -> list[signal.Signals]:
        """Return those that have come since the last call."""
        taken, self._waiting = self._waiting, []
        return taken

    def _note(self, number: int, _: Any) -> None:
        """Note a signal; one that comes twice at once, from terminal and launcher, counts once."""
        now = time.monotonic()
        if now - self._last.get(number, -REPEATED_SIGNAL_SECONDS) >= REPEATED_SIGNAL_SECONDS:
            self._waiting.append(signal.Signals(number))
        self._last[number] = now
