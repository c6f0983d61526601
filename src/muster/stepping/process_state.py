"""What a simulator changes in its process, kept apart from what muster needs there.

A simulator may change the working folder, the environment, signal handlers, NumPy's treatment of floating-point
errors, the default time-out of sockets, or replace standard output. Its changes are in force while it is called,
and undone in between.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

NUMPY_ERRORS: Any = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
"""NumPy's own defaults, under which muster computes."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD)
"""Those that muster, or a scheduler, sends."""
_HIGH_DESCRIPTOR = 200


class ProcessState:
    """The changes of some simulators to their process."""

    def __init__(self) -> None:
        self._folder: str | None = None
        self._variables: dict[str, str | None] = {}
        """Those that were changed; None if removed."""
        self._timeout: float | None = None
        self._on_alarm: Any = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Put the changes in force for a while, then undo them and those that were made meanwhile.

        Handlers of signals other than alarms, and standard streams, are undone only: a signal means the run,
        whatever a simulator would do about it, and what is reported must be seen.
        """
        folder, variables = _folder(), dict(os.environ)
        streams, timeout = (sys.stdout, sys.stderr), socket.getdefaulttimeout()
        handlers, descriptors, alarm = _handlers(SIGNALS), StandardDescriptors(), _Alarm()
        on_alarm = _handlers((signal.SIGALRM,))
        self._apply()
        try:
            yield
        finally:
            self._keep(folder, variables, timeout)
            if folder is not None:
                _change_folder(folder)
            _change_variables({name: variables.get(name) for name in self._variables})
            socket.setdefaulttimeout(timeout)
            alarm.restore()
            self._keep_on_alarm(on_alarm)
            descriptors.restore()
            sys.stdout, sys.stderr = (_reopened(stream, 1 + k) for k, stream in enumerate(streams))
            _restore_handlers(handlers)

    def _apply(self) -> None:
        if self._folder is not None:
            _change_folder(self._folder)
        _change_variables(self._variables)
        if self._timeout is not None:
            socket.setdefaulttimeout(self._timeout)
        if self._on_alarm is not None:
            _restore_handlers({signal.SIGALRM: self._on_alarm})

    def _keep_on_alarm(self, before: dict[signal.Signals, Any]) -> None:
        """Keep what a simulator does when its alarm rings, and undo it."""
        if before:
            now = signal.getsignal(signal.SIGALRM)
            self._on_alarm = None if now is before[signal.SIGALRM] else now
            _restore_handlers(before)

    def _keep(self, folder: str | None, variables: dict[str, str], timeout: float | None) -> None:
        """Keep what differs from what was there before."""
        here, now = _folder(), dict(os.environ)
        self._folder = here if here != folder else None
        if now != variables:
            names = now.keys() | variables.keys()
            self._variables = {name: now.get(name) for name in names if now.get(name) != variables.get(name)}
        else:
            self._variables = {}
        self._timeout = socket.getdefaulttimeout() if socket.getdefaulttimeout() != timeout else None


class StandardDescriptors:
    """Copies of standard input, output and error, to open them again if they are closed.

    Else the next file that is opened would get the number, and what is printed. The copies have high numbers, out
    of the way of code that closes all that it finds.
    """

    def __init__(self) -> None:
        self._copies: dict[int, int] = {}
        for number in range(3):
            with suppress(OSError):
                self._copies[number] = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _HIGH_DESCRIPTOR)

    def __del__(self) -> None:
        for copy in self._copies.values():
            with suppress(OSError):
                os.close(copy)

    def restore(self) -> None:
        """Open again what was closed, or leads elsewhere."""
        for number, copy in self._copies.items():
            with suppress(OSError):
                if not _is_same(number, copy):
                    os.dup2(copy, number)


class _Alarm:
    """The alarm that is set, if any: one that a simulator leaves behind would interrupt muster's own code."""

    TOLERANCE_SECONDS = 0.05

    def __init__(self) -> None:
        self._seconds, self._interval = signal.getitimer(signal.ITIMER_REAL)
        self._rings_at = time.monotonic() + self._seconds

    def restore(self) -> None:
        """Set it again if it is not what it should be by now."""
        left = self._rings_at - time.monotonic() if self._seconds else 0.0
        if left < 0:
            # It has rung; a periodic one rings again.
            left = left % self._interval if self._interval else 0.0
        if abs(signal.getitimer(signal.ITIMER_REAL)[0] - left) > self.TOLERANCE_SECONDS:
            signal.setitimer(signal.ITIMER_REAL, left, self._interval)


@contextmanager
def alarm_kept() -> Iterator[None]:
    """In this block simulators may be called; an alarm that they leave behind does not ring after it."""
    alarm = _Alarm()
    try:
        yield
    finally:
        alarm.restore()


def out_of_the_way(descriptor: int) -> int:
    """Give a descriptor a high number, so that code which closes all that it finds does not find it."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _HIGH_DESCRIPTOR)
    os.close(descriptor)
    return moved


class NumpyErrors:
    """How some simulators want NumPy to treat floating-point errors, in force only while they are called.

    Switching costs about a microsecond, so it is left out as long as they want what NumPy does by default.
    """

    def __init__(self) -> None:
        self.wanted: Any = None

    def enter(self) -> None:
        """Treat errors as the simulators want it."""
        np.seterr(**self.wanted)

    def leave(self) -> None:
        """Learn what the simulators want by now, and treat errors as muster wants it."""
        state = np.geterr()
        self.wanted = None if state == NUMPY_ERRORS else state
        if self.wanted is not None:
            np.seterr(**NUMPY_ERRORS)


def _is_same(number: int, copy: int) -> bool:
    try:
        return os.path.samestat(os.fstat(number), os.fstat(copy))
    except OSError:
        return False


def _folder() -> str | None:
    try:
        return str(Path.cwd())
    except OSError:
        return None


def _change_folder(folder: str) -> None:
    with suppress(OSError):
        os.chdir(folder)


def _change_variables(changes: Mapping[str, str | None]) -> None:
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _reopened(stream: Any, descriptor: int) -> Any:
    """Return a stream; if it was closed, another one in its place."""
    if not getattr(stream, "closed", False):
        return stream
    return os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


def _handlers(numbers: Sequence[signal.Signals]) -> dict[signal.Signals, Any]:
    """Return handlers of signals; only the main thread may change them."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.getsignal(number) for number in numbers}


def _restore_handlers(handlers: dict[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        if handler is not None and signal.getsignal(number) is not handler:
            signal.signal(number, handler)
    if handlers:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, handlers)
