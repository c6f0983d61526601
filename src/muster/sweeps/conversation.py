"""A run in a thread that goes on, iteration by iteration, only when it is asked for its next row."""

from __future__ import annotations

import queue
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from muster.errors import MusterError
from muster.training import TrainResult
from muster.training.interruption import Interruption, InterruptionWatch
from muster.training.listening import Silence
from muster.training.progress import Progress

POLL_SECONDS = 0.5

Row = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """How a run ended; `details` is the whole message of a failure."""

    state: str
    reason: str
    exit_code: int
    details: str = ""


class Turns(InterruptionWatch):
    """Holds a run between two iterations, after it has saved what is due, until it may go on or has to end."""

    def __init__(self, metric: str) -> None:
        super().__init__()
        self.said: queue.Queue[Row | Outcome] = queue.Queue()
        self.last_row: Row = {}
        self._metric = metric
        self._is_new = False
        self._may_go_on = threading.Semaphore(0)

    def add(self, row: Row) -> None:
        """Take the row of an iteration; one without the metric, before an episode has ended, is not told."""
        self.last_row = {name: value for name, value in row.items() if value is not None}
        self._is_new = self._metric in self.last_row

    def go_on(self) -> None:
        """Let the run do its next iteration."""
        self._may_go_on.release()

    def pending(self) -> Interruption | None:
        if self._is_new:
            self._is_new = False
            self.said.put(self.last_row)
            self._may_go_on.acquire()
        return super().pending()


class Ear(Silence):
    """Hears the rows of a run."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def iterated(self, row: dict[str, Any], progress: Progress) -> None:
        self._turns.add(row)


class Conversation:
    """Asks a run for one row after another."""

    def __init__(
        self,
        run: Callable[[Ear, Turns], TrainResult],
        metric: str,
        interruption: Callable[[], Interruption | None],
    ) -> None:
        self._run = run
        self._interruption = interruption
        self._turns = Turns(metric)
        self._thread = threading.Thread(target=self._train, name="training", daemon=True)

    def next(self) -> tuple[Row, Outcome | None]:
        """Wait for the next row; with the last one comes how the run ended."""
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._turns.go_on()
        while True:
            try:
                said = self._turns.said.get(timeout=POLL_SECONDS)
            except queue.Empty:
                if interruption := self._interruption():
                    self._turns.interrupt(interruption)
                continue
            return (self._turns.last_row, said) if isinstance(said, Outcome) else (said, None)

    def end(self, interruption: Interruption) -> None:
        """Let the run save and end, and wait for it; nothing happens if it has ended or never began."""
        if self._thread.is_alive():
            self._turns.interrupt(interruption)
            self._turns.go_on()
            self._thread.join()

    def _train(self) -> None:
        try:
            result = self._run(Ear(self._turns), self._turns)
            outcome = Outcome(result.state, result.reason, result.exit_code)
        except MusterError as error:
            outcome = Outcome("failed", str(error).partition("\n")[0], error.exit_code, str(error))
        except BaseException as error:
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
            outcome = Outcome("failed", reason, 1, traceback.format_exc())
        self._turns.said.put(outcome)
