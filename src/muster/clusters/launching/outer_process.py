"""The process that a scheduler or launcher sees: a parent of the rank, which stays until all below it has ended.

A scheduler kills all that is left on a host as soon as the process that it started there is gone. So a rank must
not be that process: this one outlives a rank that is killed, until its keeper has ended Ray. If this one is
killed, the rank is sent TERM.

Run as a script of its own, with the standard library alone. It passes signals on, and exits with the rank's code.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2, signal.SIGALRM)
LEFT_SECONDS = 10.0
_POLL_SECONDS = 0.05
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def continue_below() -> None:
    """Go on as a child of this process, which becomes the outer one."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    outer = os.getpid()
    if rank := os.fork():
        os.execv(sys.executable, [sys.executable, "-I", "-S", __file__, str(rank)])
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != outer:
        os._exit(128 + signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def main() -> None:
    """Pass signals on to the rank; when it and all that it started have ended, exit with its code."""
    rank = int(sys.argv[1])
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    for number in SIGNALS:
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: _send(rank, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    _, status = os.waitpid(rank, 0)
    code = os.waitstatus_to_exitcode(status)
    deadline = time.monotonic() + LEFT_SECONDS
    while _any_left() and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    os._exit(code if code >= 0 else 128 - code)


def _send(process: int, number: int) -> None:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return


def _any_left() -> bool:
    """Whether a child is left, such as the keeper of a rank that was killed."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return False
    return True


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()
