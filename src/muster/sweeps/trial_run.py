"""One trial as Tune sees it: a run of its own, a row of its metrics at each step."""

from __future__ import annotations

import difflib
import json
import os
import shutil
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from ray.tune import Trainable

from muster.errors import InputError, MusterError, RunLockedError
from muster.experiment import LoadedExperiment, Override, load_experiment
from muster.experiment.loading import load_saved
from muster.experiment.sweep import SweepSection
from muster.runs.checkpoints import EXPERIMENT, Checkpoints
from muster.runs.folder import RunFolder
from muster.runs.lock import RunLock
from muster.stepping.worker_signals import outlive_signals
from muster.sweeps.exploiting import Origin, continue_from
from muster.sweeps.folder import SweepFolder
from muster.sweeps.record import values_of
from muster.sweeps.space import Values
from muster.sweeps.sweep_watch import SweepWatch
from muster.training import Training, TrainOptions
from muster.training.fitting_defaults import with_defaults_of
from muster.training.interruption import RESUMABLE, Interruption
from muster.training.listener import Silence
from muster.training.progress import Progress

OUTCOME = "outcome"
ORIGIN_FILE = "origin.json"
CHECKPOINT_FOLDER = "checkpoint"
LOCK_SECONDS = 120.0
POLL_SECONDS = 0.2

T = TypeVar("T")


def trial_experiment(folder: SweepFolder, name: str, values: Values) -> LoadedExperiment:
    """Return the experiment of a trial.

    Raises:
        ExperimentError: if the values do not fit together.
    """
    overrides = [Override(key, value, "sweep") for key, value in values.items()]
    loaded = load_experiment(folder.experiment, [*overrides, Override("name", name, "sweep")])
    section = loaded.experiment.sweep
    assert section is not None
    if loaded.experiment.resources.workers == "auto":
        loaded = loaded.replace("resources.workers", 0, "sweep: a CPU for each trial")
    if section.scheduler == "pbt":
        loaded = loaded.replace("checkpoint.every", section.perturbation_interval, "sweep.perturbation_interval")
    return loaded.without("sweep")


@dataclass(frozen=True)
class Outcome:
    """How a trial's run ended; `details` is the whole message of a failure."""

    state: str
    reason: str
    exit_code: int
    details: str = ""


class TrialRun(Trainable):  # type: ignore[misc]
    """Trains one row of metrics at each step; always resumes from what is saved."""

    def setup(self, config: dict[str, Any]) -> None:
        """Get to know the trial; it begins at the first step, when it is known whether another is exploited."""
        outlive_signals()
        os.chdir(config["working_folder"])
        self._sweep = SweepFolder(Path(config["sweep"]))
        self._values: Values = config["values"]
        self._trust: bool = config["trust"]
        section = load_experiment(self._sweep.experiment).experiment.sweep
        assert section is not None
        self._section: SweepSection = section
        self._folder = self._sweep.trial(self.trial_id)
        self._origin: Origin | None = None
        self._training: Training | None = None
        self._last_row: dict[str, Any] = {}

    def step(self) -> dict[str, Any]:
        """Train until the next row that has the metric, which needs an episode that ended, or to the end."""
        try:
            while row := self._next_row():
                self._last_row = {name: value for name, value in row.items() if value is not None}
                if self._section.metric in self._last_row:
                    return self._last_row
            outcome = self._outcome()
        except MusterError as error:
            outcome = Outcome("failed", str(error).partition("\n")[0], error.exit_code, str(error))
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
            outcome = Outcome("failed", reason, 1, traceback.format_exc())
        return {**self._last_row, "done": True, OUTCOME: asdict(outcome)}

    def cleanup(self) -> None:
        """Save and end: Tune stops, pauses or exploits this trial. If that fails, the run's status says so."""
        if self._training is not None:
            interruption = self._sweep.interruption() or self._end_by_scheduler()
            with suppress(MusterError):
                self._training.stop(interruption.reason, interruption.exit_code)

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Give away the newest checkpoint, for another trial to continue from."""
        latest = Checkpoints(self._folder.checkpoints).latest()
        origin = Origin(self.trial_id, int(latest.name) if latest else 0)
        (Path(checkpoint_dir) / ORIGIN_FILE).write_text(json.dumps(asdict(origin)), encoding="utf-8")
        if latest is not None:
            shutil.copytree(latest, Path(checkpoint_dir) / CHECKPOINT_FOLDER)

    def load_checkpoint(self, checkpoint_dir: str) -> None:
        """Continue from another trial's checkpoint; from its own, a trial resumes anyway."""
        origin = Origin(**json.loads((Path(checkpoint_dir) / ORIGIN_FILE).read_text(encoding="utf-8")))
        if origin.trial == self.trial_id:
            return
        self._origin = origin
        loaded = trial_experiment(self._sweep, self.trial_id, self._values)
        given = Path(checkpoint_dir) / CHECKPOINT_FOLDER
        if given.is_dir():
            loaded = with_defaults_of(loaded, load_saved(given / EXPERIMENT).experiment)

        def adopt() -> None:
            with RunLock(self._folder.lock):
                continue_from(self._folder, given, origin, loaded, self._values)

        _when_free(adopt)

    def _next_row(self) -> dict[str, Any] | None:
        if self._training is None:
            return _when_free(self._start)
        return next(self._training, None)

    def _start(self) -> dict[str, Any] | None:
        values = self._values if self._origin else values_of(self._folder, self._values)
        self._training = Training(
            trial_experiment(self._sweep, self.trial_id, values),
            options=TrainOptions(runs_dir=self._sweep.path, resume=True, trust=self._trust),
            listener=_ColumnCheck(self._folder, self._section.metric),
            watch=SweepWatch(self._sweep),
        )
        return next(self._training, None)

    def _outcome(self) -> Outcome:
        assert self._training is not None
        result = self._training.result
        assert result is not None
        return Outcome(result.state, result.reason, result.exit_code)

    def _end_by_scheduler(self) -> Interruption:
        if self._section.scheduler == "asha":
            return Interruption("stopped early by asha: others were better", 0)
        return Interruption("paused: others take their turn", RESUMABLE)


class _ColumnCheck(Silence):
    """Looks once whether the metric is a column of the run's record."""

    def __init__(self, folder: RunFolder, metric: str) -> None:
        self._folder = folder
        self._metric = metric
        self._is_known = False

    def iterated(self, row: dict[str, Any], progress: Progress) -> None:
        if not self._is_known:
            columns = self._folder.metrics.read_text(encoding="utf-8").partition("\n")[0].split(",")
            if self._metric not in columns:
                near = difflib.get_close_matches(self._metric, columns, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"its columns: {', '.join(columns)}"
                raise InputError(f"sweep.metric = {self._metric!r}: no column of metrics.csv; {hint}")
            self._is_known = True


def _when_free(action: Callable[[], T]) -> T:
    """Wait until the run's folder is free: Tune starts a trial again while its last process still saves."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return action()
        except RunLockedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_SECONDS)
