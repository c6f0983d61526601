"""One run from beginning to end: resolve the experiment, open the folder, have Ray, train, close."""

from __future__ import annotations

import atexit
import os
import shutil
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from muster.clusters.allocation.reading import read_allocation
from muster.clusters.local import ray_for
from muster.engines.engine import Engine, Needs, RunSupervision
from muster.environment_variables import LAUNCH_ID_VARIABLE, LINK_VARIABLE
from muster.errors import AllocationError, InterruptedRunError, MusterError, SimulatorError
from muster.experiment import Experiment, LoadedExperiment, Override, load_experiment, load_object
from muster.experiment.quantities import counted
from muster.files.carried import FOLDER, name_of
from muster.policies import Policy
from muster.runs.checkpoints import Checkpoints
from muster.runs.events import EventLog
from muster.runs.files import explained
from muster.runs.finding import require_own_run
from muster.runs.folder import RunFolder, runs_dir
from muster.runs.lock import RunLock
from muster.runs.status import StatusFile
from muster.stepping.apart import ApartProcess
from muster.stepping.calls import Call
from muster.stepping.evaluation import Evaluation, EvaluationTask, evaluate_apart, evaluate_here
from muster.stepping.failures import SimulatorFailure, simulator_error
from muster.stepping.hang_watch import IN_ONE_PROCESS, end_process, too_long
from muster.stepping.journal_reading import read_last_calls
from muster.training.call import TrainOptions, TrainResult
from muster.training.description import write_description
from muster.training.evaluations import Evaluations, Evaluator, evaluation_task
from muster.training.failures import SUDDEN_DEATH, FailureRecord
from muster.training.folder_choice import choose_folder, find_weights, make_folder, require_unused
from muster.training.interruption import Interrupted, Interruption, InterruptionWatch
from muster.training.listener import Listener, RunStart, Silence
from muster.training.loop import Ending, Loop, Row, Rows, progress_status
from muster.training.preparation import Preparation, prepare
from muster.training.progress import Progress
from muster.training.resuming import open_saved
from muster.training.schedule import scheduled_values

Target = Experiment | LoadedExperiment | str | Path | Callable[..., Any]
"""What can be trained: a file, a simulator's id, an experiment, or a class or function that makes a simulator."""


class Training(Iterator[Row]):
    """Trains an experiment one iteration at a time: `for row in Training("CartPole-v1"): ...`.

    Each row holds the metrics of an iteration that is recorded, evaluated and, if due, saved; None for no value.
    The run starts with the first row and ends at a stop rule. It also ends when the `with` block, or a loop that
    alone holds it, is left: saved, as `stopped`, and resumable. A signal ends it before the next iteration.

    `experiment` is a file, a simulator's id, a class or function that makes a simulator, or an `Experiment`;
    `overrides` maps dotted keys to values, such as `{"stop.steps": 100_000}`, but not for a `LoadedExperiment`.
    `watch` is what may interrupt the run; default: signals, and the end of the wall time.

    Raises:
        MusterError: with an exit code, and a message for the user; from the iteration in which it happens.
    """

    def __init__(
        self,
        experiment: Target,
        *,
        overrides: Mapping[str, Any] | None = None,
        options: TrainOptions | None = None,
        listener: Listener | None = None,
        watch: InterruptionWatch | None = None,
    ) -> None:
        self.result: TrainResult | None = None
        """What came of the run; None before its end, and if it ended with an error."""
        self._waits_for_caller = False
        loaded = _load(experiment, overrides or {}, options or TrainOptions())
        # The generator must not refer to this object: without a cycle, a loop that is left ends the run at once.
        self._rows = _rows(loaded, options or TrainOptions(), listener or Silence(), watch or InterruptionWatch())

    def __enter__(self) -> Training:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.stop()
        else:
            self.stop(f"its caller raised {type(error).__name__}: {error}".partition("\n")[0], exit_code=1)

    def __del__(self) -> None:
        if self._waits_for_caller:
            self.stop()

    def __next__(self) -> Row:
        """Train one iteration and return its row.

        Raises:
            StopIteration: when the run has ended; `result` says how.
        """
        row = self._continue(None)
        _stop_at_exit(self)
        return row

    def stop(self, reason: str = "stopped by its caller", exit_code: int = 0) -> None:
        """Save and end the run, unless it has ended or never started; one that met a stop rule is finished."""
        if self._waits_for_caller:
            with suppress(StopIteration):
                self._continue(Interruption(reason, exit_code))
        self._rows.close()

    def _continue(self, interruption: Interruption | None) -> Row:
        self._waits_for_caller = False
        try:
            row = self._rows.send(interruption)
        except StopIteration as end:
            self.result = self.result or end.value
            raise
        self._waits_for_caller = True
        return row


_STARTED: weakref.WeakSet[Training] = weakref.WeakSet()


def _stop_at_exit(training: Training) -> None:
    """Save and end a run that is left open when Python exits; before Ray ends, which is imported by now."""
    if training not in _STARTED:
        _STARTED.add(training)
        atexit.unregister(_stop_all)
        atexit.register(_stop_all)


def _stop_all() -> None:
    for training in list(_STARTED):
        training.stop()


def train(
    experiment: Target,
    *,
    overrides: Mapping[str, Any] | None = None,
    options: TrainOptions | None = None,
    listener: Listener | None = None,
    watch: InterruptionWatch | None = None,
) -> TrainResult:
    """Train an experiment to its end; the arguments are those of `Training`.

    Raises:
        MusterError: with an exit code, and a message for the user.
    """
    with Training(experiment, overrides=overrides, options=options, listener=listener, watch=watch) as training:
        for _ in training:
            pass
    assert training.result is not None
    return training.result


def _rows(
    loaded: LoadedExperiment, options: TrainOptions, listener: Listener, watch: InterruptionWatch
) -> Rows[TrainResult]:
    if loaded.experiment.sweep is not None:
        listener.noticed("[sweep] is not used here: `muster sweep` trains its trials")
        loaded = loaded.without("sweep")
    with watch, _not_begun():
        weights_from = find_weights(options, listener)
        folder = choose_folder(loaded.experiment, options)
        if options.resume and folder.exists():
            return (yield from _resume(folder, loaded, options, listener, watch))
        try:
            with watch.nothing_to_save():
                preparation = prepare(loaded, folder, listener, resumes=False)
        except BaseException:
            with suppress(OSError):
                folder.path.rmdir()
                folder.path.parent.rmdir()
            raise
        make_folder(folder)
        with RunLock(folder.lock, listener.noticed):
            require_unused(folder)
            write_description(folder, preparation.loaded)
            run = _Run(folder, preparation, options, listener, watch)
            return (yield from run.execute(None, weights_from))


def _resume(
    folder: RunFolder,
    loaded: LoadedExperiment,
    options: TrainOptions,
    listener: Listener,
    watch: InterruptionWatch,
) -> Rows[TrainResult]:
    saved = Checkpoints(folder.checkpoints).saved()
    require_own_run(folder, saved, f"--resume {folder.name}", trust=options.trust)
    make_folder(folder)
    with RunLock(folder.lock, listener.noticed):
        resumption = open_saved(folder, loaded, listener.noticed)
        with watch.nothing_to_save():
            has_begun = resumption.checkpoint is not None
            preparation = prepare(resumption.loaded, folder, listener, resumes=has_begun)
        write_description(folder, preparation.loaded)
        run = _Run(folder, preparation, options, listener, watch)
        return (yield from run.execute(resumption.checkpoint, None))


@contextmanager
def _not_begun() -> Iterator[None]:
    try:
        yield
    except Interrupted as error:
        raise InterruptedRunError(f"{error} before training began", error.interruption.exit_code) from None


class _Run:
    """A run whose folder is ours."""

    def __init__(
        self,
        folder: RunFolder,
        preparation: Preparation,
        options: TrainOptions,
        listener: Listener,
        watch: InterruptionWatch,
    ) -> None:
        # A simulator may change the working folder.
        self._folder, self._shown = RunFolder(folder.path.absolute()), folder
        self._preparation = preparation
        self._options = options
        self._listener = listener
        self._watch = watch
        self._events = EventLog(self._folder)
        self._failures = FailureRecord(
            preparation.loaded.experiment, preparation.simulator, self._folder, shown=folder
        )
        self._supervision = RunSupervision(self._report_failure, watch.must_abandon, self._end_hung)
        self._apart = ApartProcess(preparation.loaded.experiment.env.step_timeout, self._supervision)
        self._status = StatusFile(self._folder.status, folder.name)
        self._progress = Progress()
        self._current_loop: Loop | None = None
        self._ending: Ending | None = None
        self._is_closing = False

    def execute(self, checkpoint: Path | None, weights_from: Path | None) -> Rows[TrainResult]:
        """Train, and write into the status how it ended, whichever way it does."""
        if checkpoint is not None:
            self._progress = Progress.load(checkpoint)
        self._report_sudden_death()
        status = self._status
        status.update(**progress_status(self._progress), **_job())
        try:
            with (
                self._watch.last_resort(self._end_beside),
                self._engine(checkpoint, weights_from) as engine,
            ):
                ending = self._ending = yield from self._loop(engine, checkpoint)
        except Interrupted as error:
            shutil.rmtree(self._folder.journals, ignore_errors=True)
            return self._close(Ending("stopped", str(error), error.interruption.exit_code))
        except MusterError as error:
            reason = str(error).partition("\n")[0]
            error.result = self._close(Ending("failed", reason, error.exit_code))
            raise
        except BaseException as error:
            self._close(Ending("failed", f"{type(error).__name__}: {error}", 1))
            raise
        return self._close(ending)

    def _report_failure(self, failure: SimulatorFailure) -> None:
        """Record a failure when it happens.

        Raises:
            SimulatorError: if there are too many by now.
        """
        self._progress.simulator_failures += 1
        self._listener.failed(self._failures.add(failure), failure.traceback)
        count, most = self._progress.simulator_failures, self._preparation.loaded.experiment.env.max_failures
        if count > most and not self._is_closing:
            often = f"{counted(count, 'time')}, more than env.max_failures = {most}"
            raise simulator_error(f"the simulator failed {often}; the last time: {failure}", failure)

    def _end_hung(self, call: Call, timeout: float) -> None:
        """Save and end from another thread: a call of the simulator hangs in this process, and cannot be ended."""
        if self._current_loop is not None:
            self._current_loop.save_beside(self._watch)
        reason = f"{too_long(call, timeout)}, and could not be interrupted"
        for failure in self._take_last_calls(reason):
            self._progress.simulator_failures += 1
            self._listener.failed(self._failures.add(failure), "")
        self._close(Ending("failed", reason, SimulatorError.exit_code))
        self._listener.noticed(f"{reason}; {IN_ONE_PROCESS}")
        end_process(call, timeout)

    def _end_beside(self) -> None:
        """Save and end from another thread, since the run's own hangs."""
        interruption, ending = self._watch.pending(), self._ending
        if ending is None and interruption is not None:
            if self._current_loop is not None:
                self._current_loop.save_beside(self._watch)
            ending = Ending("stopped", interruption.reason, interruption.exit_code)
        if ending is not None:
            self._close(ending)

    def _report_sudden_death(self) -> None:
        """Say in which call of the simulator the process before this one ended, if it ended in one.

        That may have been the simulator, or a kill from outside, so it does not count as a failure.
        """
        for failure in self._take_last_calls(SUDDEN_DEATH):
            self._listener.failed(self._failures.add(failure), "")

    def _take_last_calls(self, cause: str) -> list[SimulatorFailure]:
        """Describe the calls in which a process of this run ended, or is about to; they are then forgotten."""
        calls = [last for last in read_last_calls(self._folder.journals) if last.call is not Call.NONE]
        shutil.rmtree(self._folder.journals, ignore_errors=True)
        spare = self._preparation.simulator.spare_index
        return [(last.failure_of_spare if last.group == spare else last.failure)(cause, "") for last in calls]

    def _loop(self, engine: Engine, checkpoint: Path | None) -> Rows[Ending]:
        preparation, plan = self._preparation, self._preparation.plan
        experiment = preparation.loaded.experiment
        if engine.episodes_restarted:
            self._events.add("episodes restarted", checkpoint=str(checkpoint))
            self._listener.noticed("the simulators' state was not saved: new episodes begin")
        start = RunStart(
            self._shown.path,
            experiment,
            plan.num_workers,
            plan.num_simulators,
            engine.batch_size,
            self._progress.iteration,
            preparation.can_be_filmed,
        )
        self._events.add("started", workers=plan.num_workers, iteration=self._progress.iteration)
        self._listener.started(start)
        self._status.update(state="running")
        self._current_loop = Loop(
            experiment,
            engine,
            Evaluations(experiment, self._evaluator(), self._folder, self._progress),
            self._report_failure,
            self._folder,
            self._progress,
            self._status,
            self._listener,
        )
        return (yield from self._current_loop.rows(self._watch))

    def _evaluator(self) -> Evaluator:
        """Return what evaluates policies: in this process if simulators are stepped here, else apart from it."""
        experiment = self._preparation.loaded.experiment
        task = evaluation_task(experiment, self._preparation.simulator)
        if self._preparation.plan.num_workers:
            return lambda policy: self._evaluate_apart(policy, task)
        hung, journals = self._supervision.hung, self._folder.journals
        return lambda policy: evaluate_here(policy, task, self._supervision, hung=hung, journals=journals)

    def _evaluate_apart(self, policy: Policy, task: EvaluationTask) -> Evaluation:
        with explained(self._folder.evaluated):
            return evaluate_apart(policy, task, self._apart, self._folder.evaluated)

    @contextmanager
    def _engine(self, checkpoint: Path | None, weights_from: Path | None) -> Iterator[Engine]:
        plan = self._preparation.plan
        with _ray(plan.needs, show_worker_output=self._options.show_worker_output):
            with self._watch.nothing_to_save():
                scheduled = scheduled_values(self._preparation.loaded.experiment.env, self._progress)
                engine = plan.build(checkpoint, weights_from, self._supervision, scheduled)
            self._watch.listen()
            try:
                yield engine
            finally:
                self._is_closing = True
                with self._watch.closing():
                    self._apart.close()
                    engine.close()

    def _close(self, ending: Ending) -> TrainResult:
        self._events.add(ending.state, reason=ending.reason, exit_code=ending.exit_code)
        self._status.close(
            state=ending.state,
            reason=ending.reason,
            exit_code=ending.exit_code,
            **progress_status(self._progress),
        )
        latest = Checkpoints(self._folder.checkpoints).latest()
        return TrainResult(
            run=str(self._shown.path),
            state=ending.state,
            reason=ending.reason,
            steps=self._progress.steps,
            iterations=self._progress.iteration,
            return_mean=self._progress.return_mean,
            checkpoint=str(self._shown.checkpoints / latest.name) if latest else None,
            exit_code=ending.exit_code,
        )


def _ray(needs: Needs | None, *, show_worker_output: bool) -> AbstractContextManager[None]:
    if needs is None:
        return nullcontext()
    return ray_for(needs.cpus, needs.gpus, show_worker_output=show_worker_output, shares_cpus=needs.shares_cpus)


def _job() -> dict[str, str | int | None]:
    """Return the scheduler, job, link of a chain and launch that this process is in; nothing on a laptop."""
    try:
        allocation = read_allocation(may_ask=False)
    except AllocationError:
        return {}
    link = os.environ.get(LINK_VARIABLE, "")
    return {
        "scheduler": allocation.scheduler.value if allocation.job_id else None,
        "job_id": allocation.job_id.value if allocation.job_id else None,
        "link": int(link) if link.isdecimal() else None,
        "launch": os.environ.get(LAUNCH_ID_VARIABLE),
    }


def _load(target: Target, overrides: Mapping[str, Any], options: TrainOptions) -> LoadedExperiment:
    return load_target(target, overrides, runs_dir(options.runs_dir))


def load_target(experiment: Target, overrides: Mapping[str, Any], directory: Path) -> LoadedExperiment:
    """Return the experiment of a file, a simulator's id, an object, or a simulator's class or function.

    Raises:
        InputError: if it is none of them, or not valid.
    """
    given = [Override(key, value, "argument") for key, value in overrides.items()]
    if isinstance(experiment, LoadedExperiment):
        return experiment
    if isinstance(experiment, Experiment):
        return load_object(experiment, given)
    if isinstance(experiment, str | Path):
        return load_experiment(experiment, given)
    expected = "an experiment file, a simulator's id, an Experiment, or a class or function that makes a simulator"
    name, folder = name_of(experiment, directory / FOLDER, expected)
    paths = [Override("env.paths", [folder], "argument")] if folder else []
    return load_experiment(name, [*paths, *given])
