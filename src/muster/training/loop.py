"""The training loop: step, record, checkpoint, stop."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from muster.engines.engine import Engine, Iteration
from muster.errors import ExperimentError, NonFiniteUpdateError, RayLostError, SimulatorError
from muster.experiment.quantities import counted
from muster.experiment.schema import Experiment
from muster.experiment.writing import experiment_toml
from muster.runs.checkpoints import EXPERIMENT, Checkpoints
from muster.runs.events import EventLog
from muster.runs.folder import RunFolder
from muster.runs.metrics import MetricsRecord, metric_column
from muster.runs.status import StatusFile
from muster.stepping.apart import ProcessDiedError
from muster.stepping.failures import Report, SamplingAbandonedError
from muster.stepping.live import FailedCallError
from muster.training.evaluations import Evaluations
from muster.training.interruption import Interruption, InterruptionWatch
from muster.training.listener import Listener
from muster.training.progress import Progress
from muster.training.schedule import advance, schedule_columns, schedule_row, scheduled_values
from muster.training.stopping import fraction_done, stop_reason

STATUS_SECONDS = 1.0

T = TypeVar("T")
Row = dict[str, Any]
"""The metrics of an iteration by their names in `metrics.csv`; None for no value."""
Rows = Generator[Row, Interruption | None, T]
"""Rows that are sent None, or why the run has to end; in the end it returns a T."""


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
        evaluations: Evaluations,
        report_failure: Report,
        folder: RunFolder,
        progress: Progress,
        status: StatusFile,
        listener: Listener,
    ) -> None:
        self._experiment = experiment
        self._engine = engine
        self._evaluations = evaluations
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
        self._has_looked_for_metrics = False
        self._own_columns = _own_columns(experiment)
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
        columns = (*self._own_columns, *self._engine.metric_names)
        record = MetricsRecord(self._folder, columns, self.progress.iteration)
        self._evaluations.cut()
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
            if ending.state == "finished" and self._evaluations.is_due_at_end():
                self._evaluate(watch)
            self._save(watch)
            return ending
        except (ExperimentError, SimulatorError, NonFiniteUpdateError, RayLostError):
            self._save(watch, simulators=False)
            raise
        finally:
            record.close()

    def _iterate(self, record: MetricsRecord, watch: InterruptionWatch) -> Row | Ending:
        started = time.monotonic()
        stop = self._experiment.stop
        try:
            with self._under_way():
                done = fraction_done(stop, self.progress)
                scheduled = scheduled_values(self._experiment.env, self.progress)
                iteration = self._engine.iterate(done, scheduled)
        except SamplingAbandonedError:
            self._events.add("iteration abandoned", iteration=self.progress.iteration + 1)
            self._save(watch, simulators=False)
            interruption = watch.pending()
            assert interruption is not None
            return _stopped(interruption)
        seconds = time.monotonic() - started
        self.progress.add(iteration, seconds)
        row = self.progress.row(iteration, self._own_values())
        record.append(row)
        self._listener.iterated(row, self.progress)
        self._report(iteration)
        self._report_missing_metrics(row)
        self._advance_schedule()
        if self._evaluations.is_due():
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

    def _own_values(self) -> dict[str, float | int | None]:
        """Return what the experiment adds to the row: its metrics, and where its schedule is."""
        own = self.progress.metric_means(self._experiment.metrics)
        return {**own, **schedule_row(self._experiment.env, self.progress)}

    def _report_missing_metrics(self, row: Row) -> None:
        """Say once, when episodes have ended, which metrics no step had in its `info`."""
        if self._has_looked_for_metrics or not self.progress.episodes:
            return
        self._has_looked_for_metrics = True
        missing = [name for name in self._experiment.metrics if row[metric_column(name)] is None]
        if missing:
            self._listener.noticed(
                f"[metrics] {', '.join(missing)}: no number of that name in info; `muster check` lists them"
            )

    def _advance_schedule(self) -> None:
        for key, value in advance(self._experiment.env, self.progress).items():
            self._events.add("schedule", key=key, value=value, iteration=self.progress.iteration)
            self._listener.noticed(f"env.config.{key} = {value!r} from the next episodes on (env.schedule)")

    def _evaluate(self, watch: InterruptionWatch) -> None:
        """Evaluate the policy; where the simulator fails, or there is no time, the evaluation is left out."""
        iteration = self.progress.iteration
        try:
            with self._under_way():
                result = self._evaluations.evaluate(self._engine.policy())
        except SamplingAbandonedError:
            return
        except FailedCallError as error:
            self._report_failure(error.failure)
            return
        except ProcessDiedError as error:
            self._listener.noticed(f"evaluation at iteration {iteration} left out: {error}")
            return
        self._listener.evaluated(iteration, result)

    def _checkpoint_is_due(self) -> bool:
        settings = self._experiment.checkpoint
        return (
            self.progress.iteration - self._saved_iteration >= settings.every
            or time.monotonic() - self._saved_at >= settings.every_time
            or (self._evaluations.decide_best and self._is_best())
        )

    @property
    def _score(self) -> float | None:
        """What the best checkpoint is told by."""
        return self._evaluations.score if self._evaluations.decide_best else self.progress.return_mean

    def _is_best(self) -> bool:
        best, score = self.progress.best_score, self._score
        return score is not None and (best is None or score > best)

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


def _own_columns(experiment: Experiment) -> tuple[str, ...]:
    return (*map(metric_column, experiment.metrics), *schedule_columns(experiment.env))


def progress_status(progress: Progress) -> dict[str, object]:
    """Return the part of the status that the progress decides."""
    return {"iteration": progress.iteration, "steps": progress.steps, "return_mean": progress.return_mean}


def _stopped(interruption: Interruption) -> Ending:
    return Ending("stopped", interruption.reason, interruption.exit_code)
