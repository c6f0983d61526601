"""Signals in a worker's process: those that end a run are the run's business."""

from __future__ import annotations

import signal
import threading

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2)


def outlive_signals() -> None:
    """Take no notice of what a scheduler sends to every process of a job: the run needs its workers to save.

    Ray is started with these signals blocked, and its workers inherit that. A program that a simulator starts
    would inherit it too, and could not be terminated. Handlers are not inherited.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in SIGNALS:
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
