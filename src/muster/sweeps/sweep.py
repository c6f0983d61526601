"""One sweep from beginning to end: choose or resume its folder, have Ray, let Tune run the trials, sum up."""

from __future__ import annotations

import logging
import os
import shutil
import warnings
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import tomli_w

from muster.engines.choosing import problems_without_simulator
from muster.errors import ExperimentError, InputError, Problem
from muster.experiment import LoadedExperiment, load_experiment
from muster.experiment.schema import Experiment
from muster.experiment.sweep import SweepSection
from muster.experiment.tables import leaves
from muster.extras import how_to_install
from muster.files.ownership import require_own
from muster.runs.files import explained, write_text
from muster.runs.lock import RunLock
from muster.sweeps.folder import SweepFolder, choose_folder
from muster.sweeps.proposals import proposer_for
from muster.sweeps.record import SweepRecord
from muster.sweeps.resources import Bundle, bundles, ray_for_trials, total
from muster.sweeps.summary import SweepResult, summarise, verdict
from muster.sweeps.sweep_listener import SweepListener
from muster.training.interruption import InterruptionWatch
from muster.training.resuming import CHANGEABLE

TUNE_PACKAGES = ("fsspec", "pandas", "pyarrow", "tensorboardX")
_TUNE_SETTINGS = {
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000000",
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "1000000000",
    "RAY_AIR_NEW_OUTPUT": "0",
}


@dataclass(frozen=True)
class SweepOptions:
    """What is asked of one call and is not part of the experiment."""

    runs_dir: str | Path | None = None
    resume: bool = False
    show_output: bool = False
    trust: bool = False


def sweep(loaded: LoadedExperiment, options: SweepOptions, listener: SweepListener) -> SweepResult:
    """Train all trials of an experiment's sweep, or those that are left.

    Raises:
        MusterError: with an exit code, and a message for the user.
    """
    experiment = loaded.experiment
    if experiment.sweep is None:
        raise InputError(
            "the experiment has no [sweep]: nothing varies\n"
            "    for example: --set sweep.parameters.algorithm.lr='{ grid = [1e-4, 1e-3] }'"
        )
    _require_packages(experiment.sweep.search)
    _require_known_keys(loaded, experiment.sweep)
    folder = choose_folder(experiment, options.runs_dir, resume=options.resume)
    if folder.exists():
        files = (folder.path, folder.experiment, folder.record)
        require_own(files, f"--resume {folder.path.name}", trust=options.trust)
        _require_same(folder, experiment)
    with (
        InterruptionWatch() as watch,
        ray_for_trials(_needed(experiment), show_output=options.show_output) as fitting,
    ):
        watch.listen()
        _tell_of_concurrency(experiment, fitting, listener)
        with explained(folder.path):
            folder.path.mkdir(parents=True, exist_ok=True)
        with RunLock(folder.lock, listener.noticed):
            record = _open(folder, loaded)
            listener.started(record, experiment)
            os.environ.update(_TUNE_SETTINGS, TUNE_MAX_PENDING_TRIALS_PG=str(fitting))
            is_complete = _run(record, experiment, watch, listener, trust=options.trust)
            for trial in record.trials:
                record.refresh(trial)
            return summarise(record, *verdict(record, is_complete, watch.pending()))


def _require_packages(search: str) -> None:
    needed = [*TUNE_PACKAGES, *(["optuna"] if search == "optuna" else [])]
    if missing := [name for name in needed if find_spec(name) is None]:
        raise InputError(f"a sweep needs {', '.join(missing)}{how_to_install('sweep')}")


def _require_known_keys(loaded: LoadedExperiment, section: SweepSection) -> None:
    """Refuse what varies and the engine does not know, before any trial starts; the first value stands for all."""
    problems = []
    alone = loaded.without("sweep")
    for key, parameter in section.parameters.items():
        if not key.startswith("algorithm.") or key in ("algorithm.name", "algorithm.engine"):
            continue
        trial = alone.replace(key, parameter.values[0], "sweep")
        about = [problem for problem in problems_without_simulator(trial) if problem.place == key]
        problems += [replace(problem, place=f"sweep.parameters.{key}") for problem in about]
    if problems:
        raise ExperimentError(loaded.subject, problems)


def _open(folder: SweepFolder, loaded: LoadedExperiment) -> SweepRecord:
    """Begin a sweep's record, or read that of the one to resume, in which nothing has failed yet."""
    section = loaded.experiment.sweep
    assert section is not None
    record = SweepRecord.load(folder) if folder.exists() else SweepRecord(folder, section.metric, section.mode)
    with explained(folder.path):
        write_text(folder.experiment, tomli_w.dumps(loaded.given()))
        shutil.rmtree(folder.scratch, ignore_errors=True)
        folder.forget_interruption()
    for trial in record.trials:
        if trial.state == "failed" or not trial.is_done:
            trial.state, trial.reason, trial.exit_code = "queued", "", None
    record.save()
    return record


def _require_same(folder: SweepFolder, experiment: Experiment) -> None:
    """Refuse a resume that would make it another sweep, naming each change."""
    before, now = (
        {key: value for key, value in leaves(one.as_table()) if value != {}}
        for one in (load_experiment(folder.experiment).experiment, experiment)
    )
    problems = [
        Problem(
            key,
            f"is {now.get(key)!r}, but the sweep to resume has {before.get(key)!r}",
            "change it back, or start a new sweep with another --name",
        )
        for key in sorted({*before, *now})
        if before.get(key) != now.get(key)
        and not key.startswith((*CHANGEABLE, "sweep.trials", "sweep.concurrent"))
    ]
    if problems:
        raise ExperimentError(f"--resume {folder.path.name}", problems)


def _needed(experiment: Experiment) -> Bundle:
    """Return the most that a trial may need."""
    assert experiment.sweep is not None
    swept = experiment.sweep.parameters.get("resources.workers")
    numbers = [value for value in swept.values if value != "auto"] if swept else [experiment.resources.workers]
    resources = experiment.resources.model_copy(update={"workers": max(numbers, key=_count, default=0)})
    return total(bundles(experiment.model_copy(update={"resources": resources})))


def _count(workers: int | str) -> int:
    return 0 if isinstance(workers, str) else workers


def _tell_of_concurrency(experiment: Experiment, fitting: int, listener: SweepListener) -> None:
    assert experiment.sweep is not None
    if (asked := experiment.sweep.concurrent) and asked > fitting:
        listener.noticed(f"{fitting} trials at a time instead of concurrent = {asked}: there are no more CPUs")


def _run(
    record: SweepRecord,
    experiment: Experiment,
    watch: InterruptionWatch,
    listener: SweepListener,
    *,
    trust: bool,
) -> bool:
    """Let Tune run what is left; return whether there are no more trials to come."""
    from ray import tune

    from muster.sweeps.reporting import Reporter
    from muster.sweeps.schedulers import scheduler_for
    from muster.sweeps.trial_queue import TrialQueue
    from muster.sweeps.trial_run import TrialRun

    assert experiment.sweep is not None
    logging.getLogger("ray.tune").setLevel(logging.ERROR)
    queue = TrialQueue(record, proposer_for(experiment), experiment.sweep.concurrent, trust=trust)
    reporter = Reporter(record, watch, listener)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tune.run(
                TrialRun,
                name="tune",
                storage_path=str(record.folder.scratch),
                search_alg=queue,
                scheduler=scheduler_for(experiment, record),
                stop=reporter.stopper,
                callbacks=[reporter],
                raise_on_failed_trial=False,
                verbose=0,
            )
        return queue.are_all_out
    finally:
        record.folder.forget_interruption()
        shutil.rmtree(record.folder.scratch, ignore_errors=True)
