"""What grows with a cluster: the driver's work by workers, by the size of weights, by the length of fragments."""

from __future__ import annotations

import json
import os
import pickle
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np

from muster import train
from muster.clusters.local import ray_for
from muster.engines.builtin import engine
from muster.engines.builtin.networks.model_settings import ModelSettings
from muster.engines.builtin.sampling.fragments import Weights
from muster.engines.builtin.sampling.groups import EnvGroup, GroupSettings
from muster.engines.builtin.sampling.learning_rows import Discounting
from muster.engines.builtin.sampling.ray_collector import RayCollector
from muster.engines.builtin.sampling.workers import Sampled
from muster.simulators.describing import describe_actions, describe_observations
from muster.simulators.simulator import Simulator
from muster.stepping.building import build
from muster.stepping.failures import Supervision
from muster.stepping.many import SteppingSettings
from muster.training import TrainOptions

RESULTS = Path(__file__).parent / "results"
JSON_FILE, PLOT = RESULTS / "growth.json", RESULTS / "growth.png"
ROUNDS = 3
BATCH = 4096
WORKERS = (1, 8, 32, 64)
SIMULATORS = 64
WARM_UP, MEASURED = 2, 5
HIDDEN = (16, 64, 256, 1024)
LENGTHS = (8, 32, 128, 512)
RECEIVERS = 8


class MeasuredCollector(RayCollector):
    """Takes the driver's CPU time, and the time that passes, for every batch."""

    cpus: ClassVar[list[float]] = []
    walls: ClassVar[list[float]] = []

    def collect(self, weights: Weights) -> Sampled:
        """Note what a batch took."""
        cpu, wall = time.process_time(), time.perf_counter()
        sampled = super().collect(weights)
        self.cpus.append(time.process_time() - cpu)
        self.walls.append(time.perf_counter() - wall)
        return sampled


def run() -> str:
    """Measure all three, several rounds, and draw them."""
    by_workers = _rounds(WORKERS, _by_workers)
    by_size = _rounds(HIDDEN, _broadcast)
    by_length = _rounds(LENGTHS, _by_length)
    figures = {"workers": by_workers, "weights": by_size, "fragments": by_length}
    JSON_FILE.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    _plot(by_workers, by_size, by_length)
    return "\n".join([*_workers_table(by_workers), *_size_table(by_size), *_length_table(by_length)]) + "\n"


def _rounds(points: tuple[int, ...], measure: Any) -> dict[int, dict[str, float]]:
    """Measure every point in turn, several times; return medians of each figure."""
    found: dict[int, list[dict[str, float]]] = {point: [] for point in points}
    for _ in range(ROUNDS):
        for point in points:
            found[point].append(measure(point))
    return {
        point: {key: statistics.median(row[key] for row in rows) for key in rows[0]}
        for point, rows in found.items()
    }


def _train(**settings: Any) -> tuple[float, float]:
    """Train for some iterations; return the medians of CPU time and time that a batch took."""
    fixed = {
        "algorithm.num_epochs": 1,
        "checkpoint.every": 10**6,
        "evaluation.every": 0,
        "checkpoint.simulators": False,
        "stop.iterations": WARM_UP + MEASURED,
    }
    overrides = {**fixed, **{key.replace("__", "."): value for key, value in settings.items()}}
    MeasuredCollector.cpus.clear()
    MeasuredCollector.walls.clear()
    with tempfile.TemporaryDirectory() as folder, patch.object(engine, "RayCollector", MeasuredCollector):
        train("benchmarks.workloads:Sleeping", overrides=overrides, options=TrainOptions(runs_dir=folder))
    cpu, wall = (statistics.median(times[WARM_UP:]) for times in (MeasuredCollector.cpus, MeasuredCollector.walls))
    return cpu, wall


def _by_workers(workers: int) -> dict[str, float]:
    """Return what a batch takes of the driver's CPU time, and of time, with a group of one for every simulator."""
    cpu, wall = _train(
        resources__workers=workers,
        resources__env_groups=SIMULATORS,
        resources__envs_per_group=1,
        algorithm__train_batch_size=BATCH,
        algorithm__minibatch_size=BATCH,
    )
    return {"cpu": cpu, "wall": wall}


def _broadcast(hidden: int) -> dict[str, float]:
    """Return how long it takes until every worker has the weights of a network, and how large they are."""
    import ray

    class Receiver:
        def take(self, weights: Any) -> int:
            return len(weights)

    num_parameters = 2 * (8 * hidden + hidden * hidden)
    weights = np.zeros(num_parameters, np.float32)
    with ray_for(RECEIVERS, show_worker_output=False):
        receivers = [ray.remote(num_cpus=1)(Receiver).remote() for _ in range(RECEIVERS)]
        seconds = []
        for _ in range(10):
            began = time.perf_counter()
            shared = ray.put(weights)
            ray.get([receiver.take.remote(shared) for receiver in receivers])
            seconds.append(time.perf_counter() - began)
    return {"megabytes": weights.nbytes / 1e6, "seconds": statistics.median(seconds[1:])}


def _by_length(length: int) -> dict[str, float]:
    """Return the driver's CPU time for each step of fragments that long, and the bytes that a step takes."""
    groups, envs = 8, 8
    steps = groups * envs * length
    cpu, _ = _train(
        env__config={"seconds": 0.0},
        resources__workers=2,
        resources__env_groups=groups,
        resources__envs_per_group=envs,
        algorithm__train_batch_size=steps,
        algorithm__minibatch_size=steps,
    )
    return {"microseconds": cpu / steps * 1e6, "bytes": _fragment_bytes(length, envs) / (envs * length)}


def _fragment_bytes(length: int, envs: int) -> int:
    """Return the size of a fragment as it is sent: sampled in this process, and pickled."""
    simulator = Simulator("benchmarks.workloads:Sleeping", {"seconds": 0.0})
    env = build(simulator)
    observations, actions = describe_observations(env.observation_space), describe_actions(env.action_space)
    settings = GroupSettings(
        SteppingSettings(simulator, observations, actions, envs, seed=0),
        length,
        Discounting(0.99, 0.95),
        model=ModelSettings((64, 64), "tanh"),
    )
    group = EnvGroup(settings, 0, [0] * envs, Supervision(lambda _: None))
    group.start()
    weights = Weights(settings.networks().initial(np.random.default_rng(0)), None, 1.0)
    return len(pickle.dumps(group.sample(weights), protocol=5))


def _workers_table(found: dict[int, dict[str, float]]) -> list[str]:
    lines = [
        "# Growth",
        "",
        f"Medians of {ROUNDS} interleaved rounds; {os.cpu_count()} CPUs.",
        "",
        "## The driver's work by the number of workers",
        "",
        f"{SIMULATORS} simulators that sleep for a millisecond in every step, each a group of its own, {BATCH:,} "
        "steps a batch: the driver's CPU time for a batch, and the time that passes.",
        "",
        "| workers | driver | passed |",
        "|---|---|---|",
    ]
    for workers, row in found.items():
        lines.append(f"| {workers} | {row['cpu'] * 1e3:,.1f} ms | {row['wall'] * 1e3:,.0f} ms |")
    return [*lines, "", f"64 workers to 8: {found[64]['cpu'] / found[8]['cpu']:.2f}."]


def _size_table(found: dict[int, dict[str, float]]) -> list[str]:
    lines = [
        "",
        "## Weights by their size",
        "",
        f"From the driver until each of {RECEIVERS} workers on this machine has them.",
        "",
        "| hidden layers | megabytes | time |",
        "|---|---|---|",
    ]
    for hidden, row in found.items():
        lines.append(f"| {hidden}-{hidden} | {row['megabytes']:.3f} | {row['seconds'] * 1e3:.2f} ms |")
    return lines


def _length_table(found: dict[int, dict[str, float]]) -> list[str]:
    lines = [
        "",
        "## Fragments by their length",
        "",
        "8 groups of 8 simulators, observations of 8 numbers, 2 workers: the driver's CPU time and the bytes sent "
        "for each step.",
        "",
        "| steps of a simulator | driver, each step | bytes, each step |",
        "|---|---|---|",
    ]
    for length, row in found.items():
        lines.append(f"| {length} | {row['microseconds']:.2f} µs | {row['bytes']:.0f} |")
    return [*lines, "", f"![growth]({PLOT.name})"]


def _plot(
    by_workers: dict[int, dict[str, float]],
    by_size: dict[int, dict[str, float]],
    by_length: dict[int, dict[str, float]],
) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (workers, sizes, lengths) = pyplot.subplots(1, 3, figsize=(13, 4))
    workers.plot(list(by_workers), [row["cpu"] * 1e3 for row in by_workers.values()], "o-")
    workers.set(xscale="log", xlabel="workers", ylabel="driver, ms a batch")
    workers.set_xticks(WORKERS, [str(number) for number in WORKERS])
    points = list(by_size.values())
    sizes.plot([row["megabytes"] for row in points], [row["seconds"] * 1e3 for row in points], "o-")
    sizes.set(xscale="log", xlabel="weights, megabytes", ylabel=f"ms to {RECEIVERS} workers")
    lengths.plot(list(by_length), [row["microseconds"] for row in by_length.values()], "o-")
    lengths.set(xscale="log", xlabel="steps in a fragment", ylabel="driver, µs a step")
    lengths.set_xticks(LENGTHS, [str(length) for length in LENGTHS])
    for axis in (workers, sizes, lengths):
        axis.set_ylim(0, 1.1 * axis.get_ylim()[1])
    figure.tight_layout()
    figure.savefig(PLOT, dpi=110)
