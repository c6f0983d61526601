"""Small runs on RLlib, for the tests here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from muster import train
from muster.training import TrainOptions, TrainResult

SMALL: dict[str, Any] = {
    "algorithm.engine": "rllib",
    "resources.workers": 0,
    "resources.envs_per_group": 2,
    "model.hidden": [8],
    "stop.iterations": 2,
    "name": "run",
}
SMALL_PPO = {
    "algorithm.train_batch_size": 80,
    "algorithm.minibatch_size": 40,
    "algorithm.num_epochs": 2,
}


def small(
    target: str,
    folder: Path,
    *,
    algorithm: str = "PPO",
    resume: bool = False,
    listener: Any = None,
    **changes: Any,
) -> TrainResult:
    """Train for a moment; changes are dotted keys with `__` for the dots."""
    overrides = {**SMALL, **(SMALL_PPO if algorithm == "PPO" else {}), "algorithm.name": algorithm}
    overrides |= {key.replace("__", "."): value for key, value in changes.items()}
    return train(
        target, overrides=overrides, options=TrainOptions(runs_dir=folder, resume=resume), listener=listener
    )
