"""A run of a second, for tests of what is in its folder."""

from __future__ import annotations

from pathlib import Path

import muster
from muster.training import TrainOptions


def train_tiny(runs: Path, name: str, **overrides: object) -> Path:
    """Train CartPole for two iterations in this process; return the run's folder."""
    values = {"name": name, "resources.workers": 0, "stop.iterations": 2, "algorithm.train_batch_size": 64}
    muster.train("CartPole-v1", overrides={**values, **overrides}, options=TrainOptions(runs_dir=runs))
    return runs / name
