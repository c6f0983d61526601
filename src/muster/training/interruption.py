"""What may end a run before its stop rules do: signals, the end of the wall time, and the loss of Ray."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any

from muster.clusters.allocation.reading import usable_grace
from muster.clusters.local import ray_is_lost
from muster.environment_variables import END_TIME_VARIABLE, PARENT_VARIABLE
from muster.errors import InputError, RayLostError
from muster.stepping.failures import CallInterrupt

RESUMABLE = 75
SAFETY_SECONDS = 5.0
"""What is kept of the wall time, and of a long grace period, for the unforeseen."""
SAFETY_SHARE = 0.4
"""What is kept of a short grace period."""
REPEATED_SIGNAL_SECONDS = 1.0

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143, signal.SIGUSR2: RESUMABLE}


@dataclass(frozen=True)
class Interruption:
    """Why the run has to save and end now, and the exit code it ends with."""

    reason: str
    exit_code: int


class Interrupted(CallInterrupt):
    """A signal came while there was nothing to save; no simulator's `except Exception` holds it up."""

    def __init__(self, interruption: Interruption) -> None:
        super().__init__(interruption.reason)
        self.interruption = interruption


class InterruptionWatch:
    """Listens for INT, TERM, HUP and USR2 and watches the clock; a second signal ends the process at once.

    What is left of a Ray of our own when the process ends so is ended by its guard.

    The iteration under way is finished if the grace period or the wall time allows it; otherwise it is abandoned,
    and the run is saved as it was before. If that takes too long, the last resort saves what there is and ends the
    process.
    """

    def __init__(self) -> None:
        self.end_time = _end_time()
        self.grace = usable_grace()
        self._safety = min(SAFETY_SECONDS, SAFETY_SHARE * self.grace)
        self._asked: Interruption | None = None
        self._asked_time = 0.0
        self._asked_by: int | None = None
        self._iteration_seconds = 0.0
        self._save_seconds = 0.0
        self._previous: dict[signal.Signals, Any] = {}
        self._entered = 0
        self._has_nothing_to_save = False
        self._last_resort: Callable[[], None] | None = None
        self._timer: threading.Timer | None = None
        parent = os.environ.get(PARENT_VARIABLE, "")
        self._parent = int(parent) if parent.isdecimal() else None

    def __enter__(self) -> InterruptionWatch:
        self._entered += 1
        self.listen()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._entered -= 1
        if self._entered:
            return
        if self._timer is not None:
            self._timer.cancel()
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def listen(self) -> None:
        """Take over the signals; again if a library has taken them since. Only the main thread can.

        A hangup that is ignored, as under `nohup`, stays ignored.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        for number in EXIT_CODES:
            if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue
            previous = signal.signal(number, self._handle)
            self._previous.setdefault(number, previous)

    @contextmanager
    def nothing_to_save(self) -> Iterator[None]:
        """In this block a signal raises `Interrupted` at once; so does one that came before.

        So does what a library makes of it: an interrupted import may raise another error, and Ray its own.
        """
        self._has_nothing_to_save = True
        try:
            if self._asked is not None:
                raise Interrupted(self._asked)
            yield
        except (Exception, KeyboardInterrupt):
            if self._asked is not None:
                raise Interrupted(self._asked) from None
            raise
        finally:
            self._has_nothing_to_save = False

    @contextmanager
    def closing(self) -> Iterator[None]:
        """In this block, what is saved is saved: a first signal ends the block, and nothing else."""
        self._has_nothing_to_save = True
        try:
            with suppress(Interrupted):
                yield
        finally:
            self._has_nothing_to_save = False

    @contextmanager
    def last_resort(self, save: Callable[[], None]) -> Iterator[None]:
        """In this block a thread calls `save` and ends the process when grace or wall time is nearly over."""
        self._last_resort = save
        timer = None
        if self.end_time is not None:
            timer = self._end_later(self.end_time - time.time() - SAFETY_SECONDS / 2, RESUMABLE)
        try:
            yield
        finally:
            self._last_resort = None
            if timer is not None:
                timer.cancel()

    def measured(self, *, iteration: float | None = None, save: float | None = None) -> None:
        """Learn how long an iteration or a save takes, to keep that much of the wall time."""
        if iteration is not None:
            self._iteration_seconds = iteration
        if save is not None:
            self._save_seconds = max(save, self._save_seconds)

    def pending(self) -> Interruption | None:
        """Return why the run has to end before the next iteration, or None."""
        self._look_for_parent()
        if self._asked is not None:
            return self._asked
        if self.end_time is None:
            return None
        needed = SAFETY_SECONDS + 2 * (self._iteration_seconds + self._save_seconds)
        if time.time() + needed > self.end_time:
            return Interruption("the wall time is about to end", RESUMABLE)
        return None

    def must_abandon(self) -> bool:
        """Whether even the iteration under way cannot be waited for.

        Raises:
            RayLostError: if the Ray that it needs has ended.
        """
        if ray_is_lost():
            raise RayLostError(
                "Ray ended while it was in use: one of its processes was killed, or the host is out of memory\n"
                "    the last finished iteration is saved; --resume continues from there"
            )
        self._look_for_parent()
        latest = self._asked_time + self.grace - self._safety - self._save_seconds
        if self._asked is not None and time.monotonic() > latest:
            return True
        return self.end_time is not None and time.time() + SAFETY_SECONDS + self._save_seconds > self.end_time

    def _look_for_parent(self) -> None:
        if self._parent is not None and os.getppid() != self._parent:
            self.interrupt(Interruption("the process that started the run has ended", EXIT_CODES[signal.SIGTERM]))

    def interrupt(self, interruption: Interruption) -> None:
        """Ask the run to save and end; only the first reason counts."""
        if self._asked is None:
            self._asked, self._asked_time = interruption, time.monotonic()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        code = EXIT_CODES[signal.Signals(number)]
        if self._asked is not None:
            if number == self._asked_by and time.monotonic() - self._asked_time < REPEATED_SIGNAL_SECONDS:
                return
            os._exit(code)
        self._asked_by = number
        self.interrupt(Interruption(f"interrupted by {signal.Signals(number).name}", code))
        self._timer = self._end_later(self.grace - self._safety / 4, code)
        if self._has_nothing_to_save and self._asked is not None:
            raise Interrupted(self._asked)

    def _end_later(self, seconds: float, code: int) -> threading.Timer:
        timer = threading.Timer(max(0.0, seconds), self._end, (code,))
        timer.daemon = True
        timer.start()
        return timer

    def _end(self, code: int) -> None:
        if self._last_resort is None:
            return
        try:
            self._last_resort()
        finally:
            os._exit(code)


def _end_time() -> float | None:
    text = os.environ.get(END_TIME_VARIABLE)
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{END_TIME_VARIABLE}={text}: expected a time in seconds since 1970") from None
