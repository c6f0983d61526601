"""The training loop: step, record, checkpoint, stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from muster.engines.engine import Engine, Iteration
from muster.errors import ExperimentError, NonFiniteUpdateError, RayLostError, SimulatorError
from muster.experiment.quantities import counted
from muster.experiment.schema import Experiment
from muster.experiment.writing import experiment_toml
from muster.policies import Policy
from muster.runs.checkpoints import EXPERIMENT, Checkpoints
from muster.runs.events import EventLog
from muster.runs.files import append_json_line, cut_json_lines, explained
from muster.runs.folder import RunFolder
from muster.runs.metrics import MetricsRecord
from muster.runs.status import StatusFile
from muster.stepping.apart import ProcessDiedError
from muster.stepping.evaluation import Evaluation
from muster.stepping.failures import Report, SamplingAbandonedError
from muster.stepping.live import FailedCallError
from muster.training.interruption import Interruption, InterruptionWatch
from muster.training.listener import Listener
from muster.training.progress import Progress
from muster.training.stopping import fraction_done, stop_reason

STATUS_SECONDS = 1.0

T = TypeVar("T")
Row = dict[str, Any]
"""The metrics of an iteration by their names in `metrics.csv`; None for no value."""
Rows = Generator[Row, Interruption | None, T]
"""Rows that are sent None, or why the run has to end; in the end it returns a T."""


Evaluator = Callable[[Policy], Evaluation]
"""Lets a policy act for the experiment's evaluation episodes."""


@dataclass(frozen=True)
class Ending:
    """How the loop ended without an error."""

    state: str
    reason: str
    exit_code: int


class Loop:
    """One run's iterations, from its first or last checkpoint to a stop rule or an interruption."""

    def __init__(
        self,
        experiment: Experiment,
        engine: Engine,
        evaluator: Evaluator,
        report_failure: Report,
        folder: RunFolder,
        progress: Progress,
        status: StatusFile,
        listener: Listener,
    ) -> None:
        self._experiment = experiment
        self._engine = engine
        self._evaluator = evaluator
        self._report_failure = report_failure
        self._folder = folder
        self.progress = progress
        self._status = status
        self._listener = listener
        self._events = EventLog(folder)
        self._checkpoints = Checkpoints(folder.checkpoints)
        self._saved_iteration = progress.iteration
        self._saved_at = time.monotonic()
        self._told_about_restart = False
        self._score: float | None = None
        self._call: object | None = None

    @contextmanager
    def _under_way(self) -> Iterator[None]:
        """Mark a call, or a wait for the caller, that changes nothing of what is saved, and may last."""
        self._call = object()
        try:
            yield
        finally:
            self._call = None

    def save_beside(self, watch: InterruptionWatch) -> None:
        """Save from another thread while the loop's own hangs in a call; nothing is saved once that has ended."""
        if (call := self._call) is not None:
            with suppress(SamplingAbandonedError):
                self._save(watch, simulators=False, only_during=call)

    def rows(self, watch: InterruptionWatch) -> Rows[Ending]:
        """Iterate until a stop rule is met or the run is interrupted, then save; yield each iteration's row.

        Raises:
            ExperimentError, SimulatorError, NonFiniteUpdateError, RayLostError: after saving the state from
                before.
        """
        record = MetricsRecord(self._folder, self._engine.metric_names, self.progress.iteration)
        with explained(self._folder.evaluations):
            cut_json_lines(self._folder.evaluations, self._is_before_checkpoint)
        try:
            ending = self._ending(watch.pending())
            while ending is None:
                done = self._iterate(record, watch)
                if isinstance(done, Ending):
                    ending = done
                else:
                    with self._under_way():
                        asked = yield done
                    ending = self._ending(asked or watch.pending())
            self._save(watch)
            return ending
        except (ExperimentError, SimulatorError, NonFiniteUpdateError, RayLostError):
            self._save(watch, simulators=False)
            raise
        finally:
            record.close()

    def _is_before_checkpoint(self, line: dict[str, Any]) -> bool:
        iteration = line.get("iteration")
        return isinstance(iteration, int) and iteration <= self.progress.iteration

    def _iterate(self, record: MetricsRecord, watch: InterruptionWatch) -> Row | Ending:
        started = time.monotonic()
        stop = self._experiment.stop
        try:
            with self._under_way():
                done = fraction_done(stop, self.progress)
                iteration = self._engine.iterate(done)
        except SamplingAbandonedError:
            self._events.add("iteration abandoned", iteration=self.progress.iteration + 1)
            self._save(watch, simulators=False)
            interruption = watch.pending()
            assert interruption is not None
            return _stopped(interruption)
        seconds = time.monotonic() - started
        self.progress.add(iteration, seconds)
        row = self.progress.row(iteration)
        record.append(row)
        self._listener.iterated(row, self.progress)
        self._report(iteration)
        self._evaluate(watch)
        watch.measured(iteration=time.monotonic() - started)
        if self._checkpoint_is_due():
            self._save(watch)
        return row

    def _ending(self, interruption: Interruption | None) -> Ending | None:
        if reason := stop_reason(self._experiment.stop, self.progress):
            return Ending("finished", reason, 0)
        return _stopped(interruption) if interruption else None

    def _report(self, iteration: Iteration) -> None:
        progress = self.progress
        if time.time() - self._status.status.updated > STATUS_SECONDS:
            self._status.update(**progress_status(progress))
        if iteration.workers_lost:
            self._events.add("worker lost", count=iteration.workers_lost, iteration=progress.iteration)
            lost = counted(iteration.workers_lost, "worker")
            self._listener.noticed(f"{lost} lost and replaced; new episodes start there")

    def _evaluate(self, watch: InterruptionWatch) -> None:
        """Evaluate if it is due, and update the score by which the best checkpoint is told.

        An evaluation in which the simulator fails, or for which there is no time, is left out.
        """
        settings, iteration = self._experiment.evaluation, self.progress.iteration
        if not settings.every:
            self._score = self.progress.return_mean
            return
        if iteration % settings.every:
            return

        try:
            with self._under_way():
                result = self._evaluator(self._engine.policy())
        except SamplingAbandonedError:
            return
        except FailedCallError as error:
            self._report_failure(error.failure)
            return
        except ProcessDiedError as error:
            self._listener.noticed(f"evaluation at iteration {iteration} left out: {error}")
            return
        self._score = result.return_mean
        line = {"iteration": iteration, "steps": self.progress.steps, **asdict(result)}
        with explained(self._folder.evaluations):
            append_json_line(self._folder.evaluations, line)
        self._listener.noticed(
            f"evaluated at iteration {iteration}: return {result.return_mean:.4g} "
            f"± {result.return_std:.2g} over {counted(result.episodes, 'episode')}"
        )

    def _checkpoint_is_due(self) -> bool:
        settings = self._experiment.checkpoint
        return (
            self.progress.iteration - self._saved_iteration >= settings.every
            or time.monotonic() - self._saved_at >= settings.every_time
            or (self._experiment.evaluation.every > 0 and self._is_best())
        )

    def _is_best(self) -> bool:
        best = self.progress.best_score
        return self._score is not None and (best is None or self._score > best)

    def _save(
        self, watch: InterruptionWatch, *, simulators: bool = True, only_during: object | None = None
    ) -> None:
        if self.progress.iteration == self._saved_iteration:
            return
        started = time.monotonic()
        self._status.update(state="saving", **progress_status(self.progress))
        is_best = self._is_best()
        if is_best:
            self.progress.best_score = self._score

        def write(folder: Path) -> None:
            restart = self._engine.save(folder, simulators=simulators and self._experiment.checkpoint.simulators)
            self.progress.save(folder)
            (folder / EXPERIMENT).write_text(experiment_toml(self._experiment), encoding="utf-8")
            if self._call is not only_during:
                raise SamplingAbandonedError
            if restart and not self._told_about_restart:
                self._told_about_restart = True
                self._events.add("simulators not saved", reason=restart)
                # If they were never to be saved, that was asked for, or reported at the start.
                if self._experiment.checkpoint.simulators:
                    self._listener.noticed(f"resuming will begin new episodes: {restart}")

        iteration = self.progress.iteration
        path = self._checkpoints.save(iteration, write, keep=self._experiment.checkpoint.keep, is_best=is_best)
        self._saved_iteration, self._saved_at = iteration, time.monotonic()
        watch.measured(save=time.monotonic() - started)
        self._events.add("saved", checkpoint=path.name, best=is_best)
        self._status.update(state="running")


def progress_status(progress: Progress) -> dict[str, object]:
    """Return the part of the status that the progress decides."""
    return {"iteration": progress.iteration, "steps": progress.steps, "return_mean": progress.return_mean}


def _stopped(interruption: Interruption) -> Ending:
    return Ending("stopped", interruption.reason, interruption.exit_code)
