"""A run of a second, and one of none, for tests of what is in its folder."""

from __future__ import annotations

import json
from pathlib import Path

import muster
from muster.runs.metrics import FIRST_COLUMNS
from muster.training import TrainOptions


def train_tiny(runs: Path, name: str, **overrides: object) -> Path:
    """Train CartPole for two iterations in this process; return the run's folder."""
    values = {"name": name, "resources.workers": 0, "stop.iterations": 2, "algorithm.train_batch_size": 64}
    muster.train("CartPole-v1", overrides={**values, **overrides}, options=TrainOptions(runs_dir=runs))
    return runs / name


def made_run(path: Path, iterations: int = 2, state: str = "finished") -> Path:
    """Make the folder of a run that was never trained, with a checkpoint for each iteration; return it."""
    path.mkdir(parents=True)
    (path / "experiment.toml").write_text('[env]\nid = "CartPole-v1"\n')
    (path / "status.json").write_text(json.dumps({"state": state, "run": path.name, "iteration": iterations}))
    (path / "lock").touch()
    rows = [f"{i},{64 * i},{i},{i}.5,1,9,5,0,0" for i in range(1, iterations + 1)]
    (path / "metrics.csv").write_text("\n".join([",".join(FIRST_COLUMNS), *rows, ""]))
    (path / "checkpoints").mkdir()
    for i in range(1, iterations + 1):
        (path / f"checkpoints/{i:08d}").mkdir()
        (path / f"checkpoints/{i:08d}/manifest.json").write_text('{"sha256": {}}\n')
    return path
