"""One run from beginning to end: resolve the experiment, open the folder, have Ray, train, close."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.clusters.allocation.reading import LAUNCH_ID_VARIABLE, read_allocation
from muster.clusters.local import ray_for
from muster.engines.engine import Engine, Needs
from muster.engines.failing import failure_from
from muster.engines.journal import Call
from muster.engines.journal_reading import read_last_words
from muster.errors import AllocationError, InputError, InterruptedRunError, MusterError
from muster.experiment import Experiment, LoadedExperiment, Override, load_experiment, load_object
from muster.files.ownership import OWN_FOLDER
from muster.runs.checkpoints import Checkpoints
from muster.runs.events import EventLog
from muster.runs.finding import claim_folder, find_checkpoint, newest_name, require_own_run, unwritable
from muster.runs.folder import RunFolder, default_name, runs_dir
from muster.runs.lock import RunLock
from muster.runs.status import StatusFile
from muster.training.description import write_description
from muster.training.failures import SUDDEN_DEATH, FailureRecord
from muster.training.interruption import Interrupted, InterruptionWatch
from muster.training.listening import Listener, RunStart, Silence
from muster.training.loop import Ending, Loop, progress_status
from muster.training.preparation import Preparation, prepare
from muster.training.progress import Progress
from muster.training.resuming import open_saved

LINK_VARIABLE = "MUSTER_LINK"
"""The number of this job in its chain."""


@dataclass(frozen=True)
class TrainOptions:
    """What is asked of one call and is not part of the experiment."""

    runs_dir: str | Path | None = None
    resume: bool = False
    weights_from: str | Path | None = None
    show_worker_output: bool = False
    trust: bool = False
    """Resume, or take weights from, a run that another user could have changed: it runs code from its files."""


@dataclass(frozen=True)
class TrainResult:
    """What came of a run; `--json` prints exactly these."""

    run: str
    state: str
    reason: str
    steps: int
    iterations: int
    return_mean: float | None
    checkpoint: str | None
    exit_code: int


def train(
    experiment: Experiment | LoadedExperiment | str | Path,
    *,
    overrides: Mapping[str, Any] | None = None,
    options: TrainOptions | None = None,
    listener: Listener | None = None,
    watch: InterruptionWatch | None = None,
) -> TrainResult:
    """Train an experiment: a file, a simulator's id, or an `Experiment`.

    `overrides` maps dotted keys to values, such as `{"stop.steps": 100_000}`; not for a `LoadedExperiment`.
    `watch` is what may interrupt the run; default: signals, and the end of the wall time.

    Raises:
        MusterError: with an exit code, and a message for the user.
    """
    loaded = _load(experiment, overrides or {})
    options, listener = options or TrainOptions(), listener or Silence()
    if loaded.experiment.sweep is not None:
        listener.noticed("[sweep] is not used here: `muster sweep` trains its trials")
        loaded = loaded.without("sweep")
    with watch or InterruptionWatch() as watch, _not_begun():
        weights_from = _find_weights(options, listener)
        folder = _choose_folder(loaded.experiment, options)
        if options.resume and folder.exists():
            return _resume(folder, loaded, options, listener, watch)
        try:
            with watch.nothing_to_save():
                preparation = prepare(loaded, folder, listener, resumes=False)
        except BaseException:
            with suppress(OSError):
                folder.path.rmdir()
                folder.path.parent.rmdir()
            raise
        _make_folder(folder)
        with RunLock(folder.lock, listener.noticed):
            _require_unused(folder)
            write_description(folder, preparation.loaded)
            return _Run(folder, preparation, options, listener, watch).execute(None, weights_from)


def _resume(
    folder: RunFolder,
    loaded: LoadedExperiment,
    options: TrainOptions,
    listener: Listener,
    watch: InterruptionWatch,
) -> TrainResult:
    saved = Checkpoints(folder.checkpoints).saved()
    require_own_run(folder, saved, f"--resume {folder.name}", trust=options.trust)
    _make_folder(folder)
    with RunLock(folder.lock, listener.noticed):
        resumption = open_saved(folder, loaded, listener.noticed)
        with watch.nothing_to_save():
            has_begun = resumption.checkpoint is not None
            preparation = prepare(resumption.loaded, folder, listener, resumes=has_begun)
        write_description(folder, preparation.loaded)
        return _Run(folder, preparation, options, listener, watch).execute(resumption.checkpoint, None)


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
        self._folder = folder
        self._preparation = preparation
        self._options = options
        self._listener = listener
        self._watch = watch
        self._events = EventLog(folder)
        self._failures = FailureRecord(preparation.loaded.experiment, preparation.simulator, folder)
        self._progress = Progress()
        self._current_loop: Loop | None = None
        self._ending: Ending | None = None

    def execute(self, checkpoint: Path | None, weights_from: Path | None) -> TrainResult:
        """Train, and write into the status how it ended, whichever way it does."""
        if checkpoint is not None:
            self._progress = Progress.load(checkpoint)
        self._tell_of_sudden_death()
        status = StatusFile(self._folder.status, self._folder.name)
        status.update(**progress_status(self._progress), **_job())
        try:
            with (
                self._watch.last_resort(lambda: self._end_beside(status)),
                self._engine(checkpoint, weights_from) as engine,
            ):
                ending = self._ending = self._loop(engine, status, checkpoint)
        except Interrupted as error:
            shutil.rmtree(self._folder.journals, ignore_errors=True)
            return self._close(status, Ending("stopped", str(error), error.interruption.exit_code))
        except MusterError as error:
            reason = str(error).partition("\n")[0]
            error.result = self._close(status, Ending("failed", reason, error.exit_code))
            raise
        except BaseException as error:
            self._close(status, Ending("failed", f"{type(error).__name__}: {error}", 1))
            raise
        return self._close(status, ending)

    def _end_beside(self, status: StatusFile) -> None:
        """Save and end from another thread, since the run's own hangs."""
        interruption, ending = self._watch.pending(), self._ending
        if ending is None and interruption is not None:
            if self._current_loop is not None:
                self._current_loop.save_beside(self._watch)
            ending = Ending("stopped", interruption.reason, interruption.exit_code)
        if ending is not None:
            self._close(status, ending)

    def _tell_of_sudden_death(self) -> None:
        """Say in which call of the simulator the process before this one ended, if it ended in one.

        That may have been the simulator, or a kill from outside, so it does not count as a failure.
        """
        seed = self._preparation.loaded.experiment.seed
        try:
            last_words = read_last_words(self._folder.journals)
        except (OSError, ValueError, TypeError, LookupError, OverflowError):
            last_words = []
            self._listener.noticed(f"{self._folder.journals}: damaged, and so of no use")
        for said in last_words:
            if said.call is not Call.NONE:
                failure = failure_from(said, seed, SUDDEN_DEATH, "")
                self._failures.add_all([failure], self._listener)
        shutil.rmtree(self._folder.journals, ignore_errors=True)

    def _loop(self, engine: Engine, status: StatusFile, checkpoint: Path | None) -> Ending:
        preparation, plan = self._preparation, self._preparation.plan
        experiment = preparation.loaded.experiment
        if engine.episodes_restarted:
            self._events.add("episodes restarted", checkpoint=str(checkpoint))
            self._listener.noticed("the simulators' state was not saved: new episodes begin")
        start = RunStart(
            self._folder.path,
            experiment,
            plan.num_workers,
            plan.num_simulators,
            engine.batch_size,
            self._progress.iteration,
        )
        self._events.add("started", workers=plan.num_workers, iteration=self._progress.iteration)
        self._listener.started(start)
        status.update(state="running")
        self._current_loop = Loop(
            experiment, preparation.simulator, engine, self._folder, self._progress, status, self._listener
        )
        return self._current_loop.run(self._watch)

    @contextmanager
    def _engine(self, checkpoint: Path | None, weights_from: Path | None) -> Iterator[Engine]:
        plan = self._preparation.plan
        with _ray(plan.needs, show_worker_output=self._options.show_worker_output):
            with self._watch.nothing_to_save():
                engine = plan.build(checkpoint, weights_from, self._watch.must_abandon)
            self._watch.listen()
            try:
                yield engine
            finally:
                self._failures.add_all(engine.close(), self._listener)

    def _close(self, status: StatusFile, ending: Ending) -> TrainResult:
        self._events.add(ending.state, reason=ending.reason, exit_code=ending.exit_code)
        status.close(
            state=ending.state,
            reason=ending.reason,
            exit_code=ending.exit_code,
            **progress_status(self._progress),
        )
        latest = Checkpoints(self._folder.checkpoints).latest()
        return TrainResult(
            run=str(self._folder.path),
            state=ending.state,
            reason=ending.reason,
            steps=self._progress.steps,
            iterations=self._progress.iteration,
            return_mean=self._progress.return_mean,
            checkpoint=str(latest) if latest else None,
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


def _load(
    experiment: Experiment | LoadedExperiment | str | Path, overrides: Mapping[str, Any]
) -> LoadedExperiment:
    given = [Override(key, value, "argument") for key, value in overrides.items()]
    if isinstance(experiment, LoadedExperiment):
        return experiment
    if isinstance(experiment, Experiment):
        return load_object(experiment, given)
    return load_experiment(experiment, given)


def _choose_folder(experiment: Experiment, options: TrainOptions) -> RunFolder:
    """Return the folder of the run to make or to resume; one that has no name given is made at once.

    Raises:
        InputError: if a run of the given name exists and is not to be resumed.
    """
    directory = runs_dir(options.runs_dir)
    if experiment.name is not None:
        folder = RunFolder(directory / experiment.name)
        if folder.exists() and not options.resume:
            raise InputError(
                f"{folder.path}: a run of that name exists\n"
                "    use --resume to continue it, or another --name to start a new one"
            )
        return folder
    base = default_name(experiment.env.id, experiment.algorithm.name)
    name = newest_name(base, directory) if options.resume else None
    return RunFolder(directory / name if name else claim_folder(base, directory))


def _find_weights(options: TrainOptions, listener: Listener) -> Path | None:
    if options.weights_from is None:
        return None
    directory = runs_dir(options.runs_dir)
    folder, checkpoint = find_checkpoint(options.weights_from, "best", directory, listener.noticed)
    require_own_run(folder, [checkpoint], f"--from {options.weights_from}", trust=options.trust)
    return checkpoint


def _make_folder(folder: RunFolder) -> None:
    try:
        folder.path.mkdir(OWN_FOLDER, parents=True, exist_ok=True)
        if not os.access(folder.path, os.W_OK):
            raise PermissionError(None, "no permission", str(folder.path))
    except (OSError, ValueError) as error:
        raise unwritable(folder.path, error) from None


def _require_unused(folder: RunFolder) -> None:
    """Refuse to begin a run where another one has saved, or has begun since we looked."""
    if folder.exists() or Checkpoints(folder.checkpoints).latest() is not None:
        raise InputError(
            f"{folder.path}: holds another run already\n"
            "    use --resume to continue it, or another --name to start a new one"
        )
