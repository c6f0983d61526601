"""What one training run of ours learns: trained and evaluated by the commands that a user gives."""

from __future__ import annotations

import csv
import multiprocessing
import os
import resource
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from benchmarks.commands import muster

RUNS = Path(__file__).parents[1] / ".bench" / "learned"
EPISODES = 100
CURVE_POINTS = 50

Job = TypeVar("Job")


def done_in_parallel(
    do: Callable[[Job], dict[str, Any]], jobs: Sequence[Job]
) -> Iterator[tuple[Job, dict[str, Any]]]:
    """Yield jobs and what came of them as they end, as many at a time as there are CPUs."""
    # A process for each job, so that the processor time of its children is its own.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), context, max_tasks_per_child=1) as pool:
        waiting = {pool.submit(do, job): job for job in jobs}
        for future in as_completed(waiting):
            yield waiting[future], future.result()


def learn(name: str, task: str, algorithm: str, steps: int, seed: int, *flags: str) -> dict[str, Any]:
    """Train in this many steps; return the evaluations of the last and the best checkpoint, seconds and curve.

    The seconds are those of the processor, so that other work on the machine hardly counts; with one process.
    """
    where = ("--runs-dir", str(RUNS), "--json")
    given = ("--algorithm", algorithm, "--seed", str(seed), "--name", name, "--workers", "0", *flags)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    muster("train", task, *given, "--stop-steps", str(steps), "--resume", *where)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    latest, best = (
        muster("evaluate", name, "--checkpoint", which, "--episodes", str(EPISODES), *where)["return_mean"]
        for which in ("latest", "best")
    )
    with (RUNS / name / "metrics.csv").open(encoding="utf-8") as file:
        curve = [
            (int(row["steps"]), float(row["return/mean"])) for row in csv.DictReader(file) if row["return/mean"]
        ]
    return {"latest": latest, "best": best, "seconds": round(seconds, 1), "curve": thinned(curve)}


def thinned(curve: Sequence[Sequence[float]]) -> list[tuple[int, float]]:
    """Return some points of a curve, its first and last among them."""
    chosen = np.unique(np.linspace(0, len(curve) - 1, CURVE_POINTS).astype(int))
    return [(int(curve[k][0]), round(float(curve[k][1]), 3)) for k in chosen]
