"""The `muster` command from its first moment: a signal has its exit code while the rest is still imported."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

EXIT_CODES = {
    signal.SIGINT: 130,
    signal.SIGTERM: 143,
    signal.SIGHUP: 143,
    signal.SIGUSR2: 75,
    signal.SIGALRM: 75,
}
ALARM = (signal.SIGALRM,)
"""Says a launch under Flux that the wall time is over; may be a simulator's own where it trains."""
_PREVIOUS: dict[signal.Signals, Any] = {}


def run() -> None:
    """Run the command line."""
    atexit.register(_ignore)
    for number in EXIT_CODES:
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            _PREVIOUS[number] = signal.signal(number, _end)

    from muster.cli.shortcut import shortcut

    command: Callable[[], object] | None = shortcut(sys.argv[1:])
    if command is None:
        from muster.cli.main import app

        command = app

    from muster.cli.explained import run_explained

    try:
        run_explained(command)
    except SystemExit as ending:
        _end_if_stuck(ending.code)
        raise


def give_signals_back(numbers: Iterable[signal.Signals] = tuple(EXIT_CODES)) -> None:
    """Let signals have their usual effect, for a command that does not care for them."""
    for number in numbers:
        if number in _PREVIOUS:
            signal.signal(number, _PREVIOUS.pop(number))


def _end_if_stuck(code: str | int | None) -> None:
    """End here if Ray, which the process could not leave, would hold up or crash the end of Python."""
    # A command that did not import it has not used Ray.
    local = sys.modules.get("muster.clusters.local")
    if local is not None and local.is_stuck_in_ray():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def _ignore() -> None:
    """Take no more signals when all is done: Python gives them back their default effect before it ends."""
    for number in _PREVIOUS:
        signal.signal(number, signal.SIG_IGN)


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(EXIT_CODES[signal.Signals(number)])
