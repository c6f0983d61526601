"""Signals in a worker's process: those that end a run are the run's business."""

from __future__ import annotations

import signal
import threading

GROUP_SIGNALS = (signal.SIGINT, signal.SIGHUP, signal.SIGUSR2)
"""Those that a terminal or a scheduler sends to all processes of a run, and nobody to end a single one."""
SIGNALS = (*GROUP_SIGNALS, signal.SIGTERM)


def outlive_signals() -> None:
    """Take no notice of what a scheduler sends to every process of a job: the run needs its workers to save.

    Ray is started with these signals blocked, and its workers inherit that. A program that a simulator starts
    would inherit it too, and could not be terminated. Handlers are not inherited.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in SIGNALS:
        take_no_notice(number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def take_no_notice(number: signal.Signals) -> None:
    """Let a signal change nothing; unlike one that is ignored, a program that is started heeds it again."""
    signal.signal(number, lambda *_: None)
