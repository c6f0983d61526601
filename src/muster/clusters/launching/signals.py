"""What reaches a rank from outside: signals, and lines on standard input from whoever started it."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from muster.environment_variables import ORDERS_ON_STDIN_VARIABLE

REPEATED_SIGNAL_SECONDS = 1.0
RELAYED_SIGNAL_SECONDS = 10.0
"""A signal that another rank passes on counts only if the head has not had the same one for so long."""
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2, signal.SIGALRM)
FORWARDED_AS = {signal.SIGALRM: signal.SIGUSR2}
"""Flux says by ALRM that the wall time is over; a command may have alarms of its own."""
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
EXIT_CODES = {
    signal.SIGINT: 130,
    signal.SIGTERM: 143,
    signal.SIGHUP: 143,
    signal.SIGUSR2: 75,
    signal.SIGALRM: 75,
}


def come_on_standard_input() -> bool:
    """Whether this rank's standard input belongs to whoever started it."""
    return bool(os.environ.get(ORDERS_ON_STDIN_VARIABLE))


def heeded_signals() -> list[signal.Signals]:
    """Return the signals to act on: a hangup that is ignored, as under `nohup`, stays ignored."""
    return [
        number
        for number in FORWARDED
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
    ]


@contextmanager
def passed_on(to: Callable[[int], None]) -> Iterator[None]:
    """Have signals passed on for a while instead of ending this process."""
    previous = {number: signal.signal(number, lambda number, _: to(number)) for number in heeded_signals()}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class InterruptedLaunchError(Exception):
    """A signal came before the command was started."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.exit_code = EXIT_CODES[number]


class Signals:
    """Notes signals. Before the command they end the launch; then the head forwards them to the command."""

    def __init__(self) -> None:
        self.failures: dict[str, str] = {}
        """Hosts on which no rank could be started or whose rank has exited, and why."""
        self._waiting: list[signal.Signals] = []
        self._last: dict[int, float] = {}

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Note signals for a while."""
        previous = {number: signal.signal(number, self._note) for number in heeded_signals()}
        if come_on_standard_input():
            threading.Thread(target=self._read, name="orders", daemon=True).start()
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def have_come(self) -> bool:
        """Whether any waits to be taken."""
        return bool(self._waiting)

    def take(self) -> list[signal.Signals]:
        """Return those that have come since the last call."""
        taken, self._waiting = self._waiting, []
        return taken

    def raise_first(self) -> None:
        """End the launch if a signal has come.

        Raises:
            InterruptedLaunchError: for the first one.
        """
        if self._waiting:
            raise InterruptedLaunchError(self._waiting[0])

    def relay(self, number: int) -> None:
        """Take a signal that another rank has received; a scheduler sends the same one to all ranks."""
        if time.monotonic() - self._last.get(number, -RELAYED_SIGNAL_SECONDS) >= RELAYED_SIGNAL_SECONDS:
            self._note(number)

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
