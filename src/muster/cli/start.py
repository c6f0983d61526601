"""The `muster` command from its first moment: a signal has its exit code while the rest is still imported."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Any

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143, signal.SIGUSR2: 75}
_PREVIOUS: dict[signal.Signals, Any] = {}


def run() -> None:
    """Run the command line."""
    for number in EXIT_CODES:
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            _PREVIOUS[number] = signal.signal(number, _end)

    from muster.cli.main import run as run_command

    run_command()


def give_signals_back() -> None:
    """Let signals have their usual effect, for a command that does not train."""
    for number, handler in _PREVIOUS.items():
        signal.signal(number, handler)
    _PREVIOUS.clear()


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(EXIT_CODES[signal.Signals(number)])
