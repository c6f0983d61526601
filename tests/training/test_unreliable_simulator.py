"""A long run in a simulator that fails again and again: it ends well, learns, counts right and does not grow."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest

from muster import train
from muster.runs.metrics import read_metrics
from muster.training import TrainOptions
from muster.training.listener import Silence
from muster.training.progress import Progress
from tests.misbehaving import LENGTH, Unreliable

MIB = 1024**2


class Memory(Silence):
    """Measures the driver, and its largest worker, at every iteration."""

    def __init__(self) -> None:
        self.driver: list[float] = []
        self.workers: list[float] = []

    def iterated(self, row: dict[str, Any], progress: Progress) -> None:
        process = psutil.Process(os.getpid())
        self.driver.append(process.memory_info().rss / MIB)
        sizes = [0.0]
        for child in process.children(recursive=True):
            try:
                if child.name().startswith("ray::Worker"):
                    sizes.append(child.memory_info().rss / MIB)
            except psutil.NoSuchProcess:
                continue
        self.workers.append(max(sizes))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_hundred_thousand_steps_of_one_that_fails_in_six_ways(tmp_path: Path) -> None:
    counts, memory = tmp_path / "counts", Memory()
    overrides = {
        "name": "run",
        "env.config.counts": str(counts),
        "env.max_failures": 1000,
        "resources.workers": 2,
        "algorithm.lr": 1e-3,
        "checkpoint.simulators": False,
        "stop.steps": 100_000,
    }
    options = TrainOptions(runs_dir=tmp_path)
    result = train("tests.misbehaving:Unreliable", overrides=overrides, options=options, listener=memory)
    rows = read_metrics(tmp_path / "run" / "metrics.csv")
    made = Counter(counts.read_text().splitlines())
    print(made, rows[-1], [round(m) for m in (*memory.driver[::12], *memory.workers[::12])])
    assert result.exit_code == 0
    assert set(made) == set(Unreliable.WAYS)
    counted = int(rows[-1]["failures/simulator"])
    assert int(rows[-1]["failures/worker"]) == made["os._exit"]
    assert len(list((tmp_path / "run" / "failures").glob("*.json"))) == counted > 100
    # A bad observation is found when all of its group have stepped; one of them may end the process before.
    assert made.total() - 2 <= counted <= made.total()
    assert result.return_mean is not None
    assert result.return_mean > 0.95 * LENGTH
    quarter = len(memory.driver) // 4
    for sizes in (memory.driver, memory.workers):
        assert max(sizes[-quarter:]) < max(sizes[quarter : 2 * quarter]) + 20
