"""`muster.train` and `muster.sweep`: as the commands, with progress where a notebook can show it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.api.notebook import NotebookView, in_notebook
from muster.runs.folder import runs_dir as folder_of_runs
from muster.training.call import TrainOptions, TrainResult
from muster.training.interruption import InterruptionWatch
from muster.training.listener import Listener
from muster.training.train import Target, load_target
from muster.training.train import train as train_run

if TYPE_CHECKING:
    from muster.sweeps import SweepResult
    from muster.sweeps.sweep_listener import SweepListener


def train(
    experiment: Target,
    *,
    overrides: Mapping[str, Any] | None = None,
    options: TrainOptions | None = None,
    listener: Listener | None = None,
    watch: InterruptionWatch | None = None,
) -> TrainResult:
    """Train to the end, and return what came of it.

    `experiment` is a file, a simulator's id, a class or function that makes a simulator, or an `Experiment`;
    `overrides` maps dotted keys to values, such as `{"stop.steps": 100_000}`. `options` say where, and whether to
    resume; `listener` hears of every iteration: by default nobody, and in a notebook a display of the progress.

    Raises:
        MusterError: with an exit code, and a message for the user.
    """
    if listener is None and in_notebook():
        with NotebookView() as view:
            return train_run(experiment, overrides=overrides, options=options, listener=view, watch=watch)
    return train_run(experiment, overrides=overrides, options=options, listener=listener, watch=watch)


def sweep(
    experiment: Target,
    *,
    overrides: Mapping[str, Any] | None = None,
    runs_dir: str | Path | None = None,
    resume: bool = False,
    trust: bool = False,
    listener: SweepListener | None = None,
) -> SweepResult:
    """Train trials of an experiment with other values, as its `[sweep]` says; needs the extra `sweep`.

    Raises:
        MusterError: with an exit code, and a message for the user.
    """
    from muster.sweeps import SweepOptions
    from muster.sweeps import sweep as run_sweep
    from muster.sweeps.sweep_listener import SilentSweep

    loaded = load_target(experiment, overrides or {}, folder_of_runs(runs_dir))
    return run_sweep(loaded, SweepOptions(runs_dir, resume, trust=trust), listener or SilentSweep())
