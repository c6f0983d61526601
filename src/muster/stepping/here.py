"""Simulators that are called in this very process: hangs are interrupted, and what they change is undone."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

from muster.stepping.children import looked_after
from muster.stepping.failures import CallInterrupt
from muster.stepping.hang_watch import Hung, Watched, end_process, interrupted_on_hang
from muster.stepping.live import call_under_way
from muster.stepping.process_state import ProcessState


@contextmanager
def called_here(
    step_timeout: float | None,
    *,
    watched: Watched = call_under_way,
    state: ProcessState | None = None,
    hung: Hung = end_process,
) -> Iterator[None]:
    """In this block simulators may be called; `state` keeps their changes from one block to the next.

    `hung` is called, in another thread, when a call does not end even though it was interrupted.
    """
    with ExitStack() as stack:
        stack.enter_context((state or ProcessState()).installed())
        stack.enter_context(looked_after())
        stack.enter_context(_ctrl_c_is_ours())
        stack.enter_context(interrupted_on_hang(step_timeout, watched, hung))
        yield


@contextmanager
def _ctrl_c_is_ours() -> Iterator[None]:
    """Let Ctrl-C raise what no simulator's failure is, unless somebody else has taken it over."""
    is_free = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not is_free or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise CallInterrupt
