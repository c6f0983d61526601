"""Watching RLlib train: interruptions, a simulator that gave up, env runners that are lost."""

from __future__ import annotations

import ctypes
import threading
import time
from typing import Any

from muster.engines.engine import MAX_LOSSES_IN_A_ROW
from muster.engines.rllib.process_state import Link
from muster.engines.waiting import get
from muster.errors import ClusterError, SimulatorError
from muster.stepping.failures import Supervision

POLL_SECONDS = 0.2
END_SECONDS = 10.0
THREAD_NAME = "RLlib's training"
LONGEST_WITHOUT_RUNNERS = 120.0


class WatchedTraining:
    """Runs `train()` in a thread, so that this one can look after it.

    RLlib restarts env runners that are lost. It neither says so, nor stops when all are lost again and again.
    """

    def __init__(self, algorithm: Any, link: Link | None, supervision: Supervision) -> None:
        self._algorithm = algorithm
        self._link = link
        self._supervision = supervision
        self._num_samples = 0
        self._losses_at_sample = 0
        self._losses_reported = 0
        self._healthy_at = time.monotonic()
        self._thread: threading.Thread | None = None

    def train(self) -> dict[str, Any]:
        """Train once.

        Raises:
            RayLostError: if Ray has ended.
            SimulatorError: if the simulator gives up, or takes its env runners with it again and again.
            SamplingAbandonedError: when there is no time left; the thread is left to `close`.
            ClusterError: if no env runner comes back.
        """
        outcome: list[Any] = []

        def train() -> None:
            try:
                outcome.append(self._algorithm.train())
            except Exception as error:
                outcome.append(error)
            except SystemExit:
                pass

        thread = self._thread = threading.Thread(target=train, name=THREAD_NAME, daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(POLL_SECONDS)
            if thread.is_alive():
                self._supervision.require_time()
            self._look()
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        result: dict[str, Any] = outcome[0]
        return result

    def end(self) -> None:
        """End a training that was given up: Ray ends this process if it is in use while it is shut down.

        It heeds this when what it waits for comes or is lost, so the env runners must have been ended before.
        """
        thread = self._thread
        if thread is not None and thread.is_alive():
            raised = ctypes.py_object(SystemExit)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), raised)
            thread.join(END_SECONDS)

    def take_losses(self) -> int:
        """Return how many env runners were lost and replaced since this was last called."""
        lost = self._num_losses() - self._losses_reported
        self._losses_reported += lost
        return lost

    def _look(self) -> None:
        assert self._link is not None
        given_up, num_samples = get(self._link.reports.news.remote(), self._supervision.interrupted)
        self._supervision.report_all(self._link.inbox.take())
        if given_up is not None:
            raise given_up
        group = self._algorithm.env_runner_group
        losses, now = self._num_losses(), time.monotonic()
        if num_samples > self._num_samples:
            self._num_samples, self._losses_at_sample = num_samples, losses
        if group.num_healthy_remote_workers():
            self._healthy_at = now
        if losses - self._losses_at_sample >= MAX_LOSSES_IN_A_ROW * group.num_remote_workers():
            raise SimulatorError(
                f"all workers died {MAX_LOSSES_IN_A_ROW} times in a row, without a sample between\n"
                "    does the simulator end its process, or run out of memory? Try --workers 0"
            )
        if now - self._healthy_at > LONGEST_WITHOUT_RUNNERS:
            raise ClusterError(
                f"all workers were lost, and none came back within {LONGEST_WITHOUT_RUNNERS:g} s\n"
                "    continue with --resume when the hosts are back"
            )

    def _num_losses(self) -> int:
        return int(self._algorithm.env_runner_group.num_remote_worker_restarts())
