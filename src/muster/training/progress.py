"""How far a run has come: counters, the last episodes, and the row of the record they give."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from muster.engines.engine import Iteration
from muster.runs.metrics import FIRST_COLUMNS, TIME_COLUMNS, metric_column
from muster.stepping.info_metrics import mean_of

WINDOW = 100
FILE = "progress.json"


@dataclass
class Progress:
    """Counters since the run's first start; returns are those of the last 100 finished episodes."""

    iteration: int = 0
    steps: int = 0
    episodes: int = 0
    simulator_failures: int = 0
    worker_failures: int = 0
    seconds: float = 0.0
    best_score: float | None = None
    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    metrics: list[list[float | None]] = field(default_factory=list)
    """The metrics of one's own of each of the last episodes."""
    stages: dict[str, int] = field(default_factory=dict)
    """How many stages of each scheduled key have begun."""
    stage_began: dict[str, int] = field(default_factory=dict)
    """How many episodes had ended when its last one began."""
    evaluated_iteration: int = 0
    evaluated_steps: int = 0
    evaluation_cost: int = 0
    """Steps that the last evaluation took."""

    @property
    def return_mean(self) -> float | None:
        """Mean return of the last episodes; None before the first one ended."""
        return float(np.mean(self.returns)) if self.returns else None

    def add(self, iteration: Iteration, seconds: float) -> None:
        """Count one more iteration."""
        self.iteration += 1
        self.steps += iteration.steps
        self.episodes += len(iteration.episodes)
        self.worker_failures += iteration.workers_lost
        self.seconds += seconds
        self.returns = (self.returns + [episode.total for episode in iteration.episodes])[-WINDOW:]
        self.lengths = (self.lengths + [episode.length for episode in iteration.episodes])[-WINDOW:]
        self.metrics = (self.metrics + [list(episode.metrics) for episode in iteration.episodes])[-WINDOW:]

    def metric_means(self, names: Iterable[str]) -> dict[str, float | None]:
        """Return the mean of each metric of one's own over the last episodes that have it."""
        columns = zip(*self.metrics, strict=True) if self.metrics else ([] for _ in names)
        return {metric_column(name): mean_of(column) for name, column in zip(names, columns, strict=True)}

    def row(self, iteration: Iteration, own: Mapping[str, float | int | None]) -> dict[str, float | int | None]:
        """Return the row of the iteration that was just added; `own` are the columns of the experiment."""
        counted = (
            self.iteration,
            self.steps,
            self.episodes,
            self.return_mean,
            min(self.returns, default=None),
            max(self.returns, default=None),
            float(np.mean(self.lengths)) if self.lengths else None,
            self.simulator_failures,
            self.worker_failures,
        )
        timed = (
            round(self.seconds, 3),
            round(iteration.sample_seconds, 4),
            round(iteration.learn_seconds, 4),
            round(iteration.wait_seconds, 4),
        )
        return {
            **dict(zip(FIRST_COLUMNS, counted, strict=True)),
            **own,
            **iteration.metrics,
            **dict(zip(TIME_COLUMNS, timed, strict=True)),
        }

    def save(self, folder: Path) -> None:
        """Write the progress into a checkpoint."""
        (folder / FILE).write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Progress:
        """Read the progress of a checkpoint."""
        values: dict[str, Any] = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return cls(**values)
