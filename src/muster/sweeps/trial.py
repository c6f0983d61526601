"""One trial as Tune sees it: a run of its own, a row of its metrics at each step."""

from __future__ import annotations

import difflib
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from ray.tune import Trainable

from muster.engines.worker_signals import outlive_signals
from muster.errors import InputError, RunLockedError
from muster.experiment import LoadedExperiment, Override, load_experiment
from muster.experiment.sweep import SweepSection
from muster.runs.checkpoints import Checkpoints
from muster.runs.folder import RunFolder
from muster.runs.lock import RunLock
from muster.sweeps.conversation import Conversation, Ear, Turns
from muster.sweeps.exploiting import Origin, go_on_from
from muster.sweeps.folder import SweepFolder
from muster.sweeps.record import values_of
from muster.sweeps.space import Values
from muster.training import TrainOptions, TrainResult, train
from muster.training.interruption import RESUMABLE, Interruption

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


class TrialRun(Trainable):  # type: ignore[misc]
    """Trains in a thread, since Tune asks for one iteration after another; always goes on from what is saved."""

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
        self._conversation = Conversation(self._train, section.metric, self._sweep.interruption)

    def step(self) -> dict[str, Any]:
        """Train until the next row of metrics."""
        row, outcome = self._conversation.next()
        return {**row, "done": True, OUTCOME: asdict(outcome)} if outcome else row

    def cleanup(self) -> None:
        """Save and end: Tune stops, pauses or exploits this trial."""
        self._conversation.end(self._sweep.interruption() or self._end_by_scheduler())

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Give away the newest checkpoint, for another trial to go on from."""
        latest = Checkpoints(self._folder.checkpoints).latest()
        origin = Origin(self.trial_id, int(latest.name) if latest else 0)
        (Path(checkpoint_dir) / ORIGIN_FILE).write_text(json.dumps(asdict(origin)), encoding="utf-8")
        if latest is not None:
            shutil.copytree(latest, Path(checkpoint_dir) / CHECKPOINT_FOLDER)

    def load_checkpoint(self, checkpoint_dir: str) -> None:
        """Go on from another trial's checkpoint; from its own, a trial goes on anyway."""
        origin = Origin(**json.loads((Path(checkpoint_dir) / ORIGIN_FILE).read_text(encoding="utf-8")))
        if origin.trial == self.trial_id:
            return
        self._origin = origin
        loaded = trial_experiment(self._sweep, self.trial_id, self._values)
        given = Path(checkpoint_dir) / CHECKPOINT_FOLDER

        def adopt() -> None:
            with RunLock(self._folder.lock):
                go_on_from(self._folder, given, origin, loaded, self._values)

        _when_free(adopt)

    def _train(self, ear: Ear, turns: Turns) -> TrainResult:
        values = self._values if self._origin else values_of(self._folder, self._values)
        loaded = trial_experiment(self._sweep, self.trial_id, values)
        options = TrainOptions(runs_dir=self._sweep.path, resume=True, trust=self._trust)
        listener = _ColumnCheck(turns, self._folder, self._section.metric)
        return _when_free(lambda: train(loaded, options=options, listener=listener, watch=turns))

    def _end_by_scheduler(self) -> Interruption:
        if self._section.scheduler == "asha":
            return Interruption("stopped early by asha: others were better", 0)
        return Interruption("paused: others take their turn", RESUMABLE)


class _ColumnCheck(Ear):
    """Looks once whether the metric is a column of the run's record."""

    def __init__(self, turns: Turns, folder: RunFolder, metric: str) -> None:
        super().__init__(turns)
        self._folder = folder
        self._metric = metric
        self._is_known = False

    def iterated(self, row: dict[str, Any], progress: Any) -> None:
        if not self._is_known:
            columns = self._folder.metrics.read_text(encoding="utf-8").partition("\n")[0].split(",")
            if self._metric not in columns:
                near = difflib.get_close_matches(self._metric, columns, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"its columns: {', '.join(columns)}"
                raise InputError(f"sweep.metric = {self._metric!r}: no column of metrics.csv; {hint}")
            self._is_known = True
        super().iterated(row, progress)


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
