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

from muster.errors import SimulatorError
from muster.stepping.calls import Call, UnderWay
from muster.stepping.journal import TRACE_FILE

SIGNAL = signal.SIGUSR1
IN_ONE_PROCESS = (
    "with --workers 0, env.step_timeout can interrupt only Python code and waiting; a hang in C code or a crash "
    "ends the run: --workers 1 isolates the simulator"
)
_LONGEST_INTERVAL = 1.0

Watched = Callable[[], UnderWay | None]
Hung = Callable[[Call, float], None]
"""Takes the call that has hung, and the time that it had."""
DEAF_SECONDS = 30.0
"""How much longer a process may take in which no thread of Python's runs: it may have been stopped."""
STOPPED_SECONDS = 2.0


def too_long(call: Call, timeout: float) -> str:
    """Say that a call took too long, as an error is described."""
    return f"{TimeoutError.__name__}: {_lateness(call, timeout)}"


def _lateness(call: Call, timeout: float) -> str:
    return f"{call.word} took longer than env.step_timeout = {timeout:g} s"


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
        looked = since
        while not self._ended.wait(self.interval):
            call, before, looked = self._watched(), looked, time.monotonic()
            # A process that was stopped for a while, as by a scheduler or a debugger, does not hang.
            was_stopped = looked - before > self.interval + STOPPED_SECONDS
            if call is None or call != seen or was_stopped:
                seen, since = call, looked
            elif looked - since > self._timeout:
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

    def timed() -> UnderWay | None:
        faulthandler.dump_traceback_later(timeout + 2 * watch.interval, exit=True, file=trace)
        return watched()

    watch = _Watch(timeout, timed, lambda call: _leave_trace(trace, call[0], timeout))
    timed()
    watch.start()


def interrupt_or_end_on_hang(folder: Path | None, timeout: float | None, watched: Watched) -> None:
    """The same, but first raise TimeoutError inside the call; only if it hangs for as long again, end the process.

    To be called in the main thread, which is to be the one that hangs.
    """
    trace = _trace_file(folder)
    faulthandler.enable(trace, all_threads=False)
    if timeout is None:
        return
    interrupter = _Interrupter(timeout, watched)
    signal.signal(SIGNAL, interrupter.handle)
    interrupter.watch(lambda call, seconds: _leave_trace(trace, call, seconds), trace).start()


def _leave_trace(trace: TextIO, call: Call, timeout: float) -> None:
    try:
        trace.write(f"{too_long(call, timeout)}\n")
        trace.flush()
        faulthandler.dump_traceback(trace)
    finally:
        os._exit(1)


def _trace_file(folder: Path | None) -> TextIO:
    if folder is not None:
        with suppress(OSError):
            return (folder / TRACE_FILE).open("w", encoding="utf-8")
    return Path(os.devnull).open("w", encoding="utf-8")


def print_faults() -> None:
    """Have Python print its stack when C code ends this process with a fault."""
    if not faulthandler.is_enabled():
        with suppress(OSError, ValueError):
            faulthandler.enable(sys.__stderr__ or sys.stderr, all_threads=False)


def end_process(call: Call, timeout: float) -> None:
    """End this process, in the middle of a call that nothing else ends."""
    with suppress(OSError, ValueError):
        print(f"{too_long(call, timeout)}, and could not be interrupted", file=sys.__stderr__, flush=True)
    os._exit(SimulatorError.exit_code)


class _Interrupter:
    """Raises TimeoutError in the main thread, inside the call that hangs there."""

    def __init__(self, timeout: float, watched: Watched) -> None:
        self._timeout = timeout
        self._watched = watched
        self._found: list[UnderWay] = []

    def watch(self, hung: Hung, trace: TextIO) -> _Watch:
        """Return the watch that interrupts a call that hangs, and calls `hung` if it goes on."""
        seen: list[UnderWay] = []

        def interrupt(call: UnderWay) -> None:
            if call in seen:
                hung(call[0], self._timeout)
            seen[:] = [call]
            self._found.append(call)
            signal.pthread_kill(threading.main_thread().ident or 0, SIGNAL)

        def timed() -> UnderWay | None:
            patience = DEAF_SECONDS + 2 * (self._timeout + watch.interval)
            # A simulator may have closed standard error.
            with suppress(OSError, ValueError):
                faulthandler.dump_traceback_later(patience, exit=True, file=trace)
            return self._watched()

        watch = _Watch(self._timeout, timed, interrupt)
        timed()
        return watch

    def handle(self, number: int, frame: FrameType | None) -> None:
        if self._found and self._watched() == (call := self._found.pop()):
            raise TimeoutError(_lateness(call[0], self._timeout))


@contextmanager
def interrupted_on_hang(timeout: float | None, watched: Watched, hung: Hung = end_process) -> Iterator[None]:
    """Raise TimeoutError inside a call that hangs, in this process; nothing without a timeout.

    If it hangs for as long again, `hung` is called in another thread, which may save and has to end the process; a
    call that lets no other thread run is ended with it. Only the main thread can be interrupted.
    """
    if timeout is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupter = _Interrupter(timeout, watched)
    previous = signal.signal(SIGNAL, interrupter.handle)
    watch = interrupter.watch(hung, sys.__stderr__ or sys.stderr)
    watch.start()
    try:
        yield
    finally:
        watch.end()
        faulthandler.cancel_dump_traceback_later()
        signal.signal(SIGNAL, previous)
