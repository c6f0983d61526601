"""Processes that a simulator forks: they end with their parent, and a signal ends them as it ends any program."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from muster.stepping.worker_signals import GROUP_SIGNALS, take_no_notice

_PR_SET_PDEATHSIG = 1

_looked_after = 0
"""How many ask for it at the moment; what is forked while nobody does is no simulator's."""
_parent = 0
"""This process, if its main thread forks; else 0, since on Linux a child would end with the thread."""


@contextmanager
def looked_after() -> Iterator[None]:
    """In this block, children that are forked are looked after."""
    global _looked_after
    _register()
    _looked_after += 1
    try:
        yield
    finally:
        _looked_after -= 1


def look_after_children() -> None:
    """Look after the children of this process for good.

    A child has copies of all descriptors. While it lives, nobody sees a connection of this process end, by which
    Ray notices the death of a worker. It also has the handlers of signals, by which it would not end on TERM.
    """
    global _looked_after
    _register()
    _looked_after += 1


@cache
def _register() -> None:
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    os.register_at_fork(before=_remember, after_in_child=lambda: _begin_as_child(library))


def _remember() -> None:
    global _parent
    _parent = os.getpid() if threading.current_thread() is threading.main_thread() else 0


def _begin_as_child(library: Any) -> None:
    if not _looked_after:
        return
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_DFL)
    for number in GROUP_SIGNALS:
        take_no_notice(number)
    if library is not None and _parent:
        library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != _parent:
            os._exit(1)
