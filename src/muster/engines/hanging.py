"""Calls of the simulator that take too long: noticed from beside, and ended.

In a worker, the process is ended: nothing less is sure to end a hang. In the run's own process that would end the
run, so there the call is interrupted with a signal, which Python code and waiting heed and a loop in C does not.
An env runner of RLlib's tries the signal first.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TextIO

from muster.engines.journal import TRACE_FILE, UnderWay

SIGNAL = signal.SIGUSR1
IN_ONE_PROCESS = (
    "env.step_timeout in this one process interrupts what waits or runs in Python; a hang in C code, and whatever "
    "ends the process, ends the run: --workers 1 keeps them apart"
)
_LONGEST_INTERVAL = 1.0

Watched = Callable[[], UnderWay | None]


def too_long(call: str, timeout: float) -> str:
    """Say that a call took too long."""
    return f"TimeoutError: {call} took longer than env.step_timeout = {timeout:g} s"


class _Watch:
    """A thread that looks again and again whether the same call is under way for too long."""

    def __init__(self, timeout: float, watched: Watched, hung: Callable[[UnderWay], None]) -> None:
        self.interval = min(timeout / 4, _LONGEST_INTERVAL)
        self._timeout = timeout
        self._watched = watched
        self._hung = hung
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, name="hang watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        seen, since = None, time.monotonic()
        while not self._ended.wait(self.interval):
            call = self._watched()
            if call is None or call != seen:
                seen, since = call, time.monotonic()
            elif time.monotonic() - since > self._timeout:
                self._hung(call)
                since = time.monotonic()


def end_process_on_hang(folder: Path | None, timeout: float | None, watched: Watched) -> None:
    """End this process when a call hangs, and leave its stack in a file, if there is a folder for it.

    The stack of a fault in C code is left there too.

    A call may hang and never let another thread run; the fault handler's timer, which needs no Python, then ends
    the process in the watch's stead.
    """
    trace = _trace_file(folder)
    faulthandler.enable(trace, all_threads=False)
    if timeout is None:
        return

    def hung(call: UnderWay) -> None:
        try:
            trace.write(f"{too_long(call[0], timeout)}\n")
            trace.flush()
            faulthandler.dump_traceback(trace)
        finally:
            os._exit(1)

    def timed() -> UnderWay | None:
        faulthandler.dump_traceback_later(timeout + 2 * watch.interval, exit=True, file=trace)
        return watched()

    watch = _Watch(timeout, timed, hung)
    timed()
    watch.start()


def _trace_file(folder: Path | None) -> TextIO:
    if folder is not None:
        with suppress(OSError):
            return (folder / TRACE_FILE).open("w", encoding="utf-8")
    return Path(os.devnull).open("w", encoding="utf-8")


def tell_of_faults() -> None:
    """Have Python print its stack when C code ends this process with a fault."""
    if not faulthandler.is_enabled():
        with suppress(OSError, ValueError):
            faulthandler.enable(sys.__stderr__ or sys.stderr, all_threads=False)


class _Interrupter:
    """Raises TimeoutError in the main thread, inside the call that hangs there."""

    def __init__(self, timeout: float, watched: Watched) -> None:
        self._timeout = timeout
        self._watched = watched
        self._found: list[UnderWay] = []

    def interrupt(self, call: UnderWay) -> None:
        self._found.append(call)
        signal.pthread_kill(threading.main_thread().ident or 0, SIGNAL)

    def handle(self, number: int, frame: FrameType | None) -> None:
        if self._found and self._watched() == (call := self._found.pop()):
            raise TimeoutError(too_long(call[0], self._timeout).partition(": ")[2])


@contextmanager
def interrupted_on_hang(timeout: float | None, watched: Watched) -> Iterator[None]:
    """Raise TimeoutError inside a call that hangs, in this process; nothing without a timeout.

    Only the main thread can be interrupted so.
    """
    if timeout is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupter = _Interrupter(timeout, watched)
    previous = signal.signal(SIGNAL, interrupter.handle)
    watch = _Watch(timeout, watched, interrupter.interrupt)
    watch.start()
    try:
        yield
    finally:
        watch.end()
        signal.signal(SIGNAL, previous)


def interrupt_or_end_on_hang(timeout: float, watched: Watched) -> None:
    """From now on, raise TimeoutError inside a call that hangs; if it hangs for as long again, end this process.

    To be called in the main thread, which is to be the one that hangs.
    """
    interrupter = _Interrupter(timeout, watched)
    interrupted: list[UnderWay] = []

    def hung(call: UnderWay) -> None:
        if call in interrupted:
            os._exit(1)
        interrupted[:] = [call]
        interrupter.interrupt(call)

    def timed() -> UnderWay | None:
        faulthandler.dump_traceback_later(2 * (timeout + watch.interval), exit=True)
        return watched()

    signal.signal(SIGNAL, interrupter.handle)
    watch = _Watch(timeout, timed, hung)
    timed()
    watch.start()
