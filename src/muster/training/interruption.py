"""What may end a run before its stop rules do: signals, and the end of the wall time."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any

from muster.errors import InputError

END_TIME_VARIABLE = "MUSTER_END_TIME"
RESUMABLE = 75
GRACE_SECONDS = 20.0
SAFETY_SECONDS = 5.0

_EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGUSR2: RESUMABLE}


@dataclass(frozen=True)
class Interruption:
    """Why the run has to save and end now, and the exit code it ends with."""

    reason: str
    exit_code: int


class InterruptionWatch:
    """Listens for INT, TERM and USR2 and watches the clock; a second signal ends the process at once.

    The iteration under way is finished if that takes no longer than a grace period, or fits the wall time;
    otherwise it is abandoned, and the run is saved as it was before it.
    """

    def __init__(self) -> None:
        self.end_time = _end_time()
        self._asked: Interruption | None = None
        self._asked_time = 0.0
        self._iteration_seconds = 0.0
        self._save_seconds = 0.0
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> InterruptionWatch:
        self.listen()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def listen(self) -> None:
        """Take over the signals; again if a library has taken them since. Only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _EXIT_CODES:
            previous = signal.signal(number, self._handle)
            self._previous.setdefault(number, previous)

    def measured(self, *, iteration: float | None = None, save: float | None = None) -> None:
        """Learn how long an iteration or a save takes, to keep that much of the wall time."""
        if iteration is not None:
            self._iteration_seconds = iteration
        if save is not None:
            self._save_seconds = max(save, self._save_seconds)

    def pending(self) -> Interruption | None:
        """Return why the run has to end before the next iteration, or None."""
        if self._asked is not None:
            return self._asked
        if self.end_time is None:
            return None
        needed = SAFETY_SECONDS + 2 * (self._iteration_seconds + self._save_seconds)
        if time.time() + needed > self.end_time:
            return Interruption("the wall time is about to end", RESUMABLE)
        return None

    def must_abandon(self) -> bool:
        """Whether even the iteration under way cannot be waited for."""
        if self._asked is not None and time.monotonic() - self._asked_time > GRACE_SECONDS:
            return True
        return self.end_time is not None and time.time() + SAFETY_SECONDS + self._save_seconds > self.end_time

    def interrupt(self, interruption: Interruption) -> None:
        """Ask the run to save and end; only the first reason counts."""
        if self._asked is None:
            self._asked, self._asked_time = interruption, time.monotonic()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        code = _EXIT_CODES[signal.Signals(number)]
        if self._asked is not None:
            os._exit(code)
        self.interrupt(Interruption(f"interrupted by {signal.Signals(number).name}", code))


def _end_time() -> float | None:
    text = os.environ.get(END_TIME_VARIABLE)
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{END_TIME_VARIABLE}={text}: expected a time in seconds since 1970") from None
