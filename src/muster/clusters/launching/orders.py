"""What reaches a rank from outside: signals, and lines on standard input from who started it."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

REPEATED_SIGNAL_SECONDS = 1.0
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2)
STANDARD_INPUT_VARIABLE = "MUSTER_ORDERS_ON_STDIN"
"""Set in ranks that are told of signals and lost hosts by lines of JSON; the end of these lines means TERM."""


def come_on_standard_input() -> bool:
    """Whether this rank's standard input belongs to whoever started it."""
    return bool(os.environ.get(STANDARD_INPUT_VARIABLE))


class Orders:
    """The head forwards signals to the command; the other ranks leave them to the head."""

    def __init__(self) -> None:
        self.failures: dict[str, str] = {}
        """Hosts on which no rank could be started, and why."""
        self._waiting: list[signal.Signals] = []
        self._last: dict[int, float] = {}

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take the orders for a while."""
        previous = {number: signal.signal(number, self._note) for number in FORWARDED}
        if come_on_standard_input():
            threading.Thread(target=self._read, name="orders", daemon=True).start()
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def take_signals(self) -> list[signal.Signals]:
        """Return those that have come since the last call."""
        taken, self._waiting = self._waiting, []
        return taken

    def _note(self, number: int, _: Any = None) -> None:
        """Note a signal; one that comes twice at once, from terminal and launcher, counts once."""
        now = time.monotonic()
        if now - self._last.get(number, -REPEATED_SIGNAL_SECONDS) >= REPEATED_SIGNAL_SECONDS:
            self._waiting.append(signal.Signals(number))
        self._last[number] = now

    def _read(self) -> None:
        for line in sys.stdin:
            order = json.loads(line)
            if "signal" in order:
                self._note(order["signal"])
            else:
                self.failures |= order["failed"]
        self._note(signal.SIGTERM)
