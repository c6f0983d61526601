"""Measuring how training speeds up with workers: the same work with each number of them, in short runs."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from muster.clusters.hosts import cluster_hosts, reserved
from muster.errors import InputError
from muster.experiment import LoadedExperiment
from muster.training.call import TrainOptions
from muster.training.fitting_defaults import with_fitting_batch_size
from muster.training.train import Training

WARM_UP = 2
"""Iterations that are not counted: scales are not known in the first, and caches are cold."""
FEWEST = 3


@dataclass(frozen=True)
class Measured:
    """What training with a number of workers took, per iteration: medians, in seconds; `hosts` if these vary."""

    workers: int
    steps: float
    seconds: float
    sample: float
    learn: float
    wait: float
    hosts: int | None = None

    @property
    def speed(self) -> float:
        """Steps a second, learning included."""
        return self.steps / self.seconds


def measure_scaling(
    loaded: LoadedExperiment, workers: Sequence[int], seconds: float, tell: Callable[[Measured], None]
) -> list[Measured]:
    """Train with each number of workers, for at least so long and so many iterations; runs leave nothing behind.

    The groups of simulators are the same in all of them: as many as the most workers need.

    Raises:
        MusterError: whatever training raises.
    """
    loaded = _with_groups_for(loaded, max(workers))
    found = []
    for number in workers:
        found.append(_measure(loaded, number, seconds))
        tell(found[-1])
    return found


def measure_hosts(
    loaded: LoadedExperiment, numbers: Sequence[int], seconds: float, tell: Callable[[Measured], None]
) -> list[Measured]:
    """The same with a worker on every CPU of so many hosts of a cluster, the others left idle.

    Raises:
        InputError: if there is no cluster, or it has fewer hosts.
        MusterError: whatever training raises.
    """
    with cluster_hosts() as hosts:
        if max(numbers) > len(hosts):
            raise InputError(f"--nodes: {max(numbers)} hosts were asked for, but the cluster has {len(hosts)}")
        workers = [sum(host.cpus for host in hosts[:number]) for number in numbers]
        loaded = _with_groups_for(loaded, max(workers))
        found = []
        for number, count in zip(numbers, workers, strict=True):
            with reserved(hosts[number:]):
                found.append(replace(_measure(loaded, count, seconds), hosts=number))
            tell(found[-1])
    return found


def _with_groups_for(loaded: LoadedExperiment, workers: int) -> LoadedExperiment:
    if workers <= loaded.experiment.resources.env_groups:
        return loaded
    return loaded.replace("resources.env_groups", workers, "the most workers that are measured")


def _measure(loaded: LoadedExperiment, workers: int, seconds: float) -> Measured:
    table = {
        "name": "measured",
        "resources.workers": workers,
        "evaluation.every": 0,
        "checkpoint.every": 10**9,
        "checkpoint.simulators": False,
    }
    for key, value in table.items():
        loaded = loaded.replace(key, value, "muster scale")
    loaded = with_fitting_batch_size(loaded)
    for key in ("steps", "iterations", "return"):
        loaded = loaded.replace(f"stop.{key}", None, "muster scale")
    loaded = loaded.replace("stop.time", 10 * seconds + 600, "muster scale")
    with tempfile.TemporaryDirectory(prefix="muster-scale-") as folder:
        rows = _timed_rows(loaded, TrainOptions(runs_dir=folder), seconds)
    return Measured(
        workers,
        statistics.median(row["steps"] for row in rows),
        statistics.median(row["seconds"] for row in rows),
        *(statistics.median(row[f"time/{part}"] for row in rows) for part in ("sample", "learn", "wait")),
    )


def _timed_rows(loaded: LoadedExperiment, options: TrainOptions, seconds: float) -> list[dict[str, Any]]:
    """Return the rows of enough iterations, each with its own `steps` and `seconds`."""
    rows: list[dict[str, Any]] = []
    began = last = 0.0
    steps = 0
    with Training(loaded, options=options) as training:
        for row in training:
            now = time.perf_counter()
            if row["iteration"] <= WARM_UP:
                began = now
            else:
                rows.append({**row, "steps": row["steps"] - steps, "seconds": now - last})
            last, steps = now, row["steps"]
            if len(rows) >= FEWEST and now - began >= seconds:
                break
    return rows
