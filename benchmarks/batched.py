"""Batched simulators beside the same single ones: speed of training, sampling and stepping alone; and returns."""

from __future__ import annotations

import csv
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.commands import ROOT, muster

RESULTS = Path(__file__).parent / "results"
PLOT = RESULTS / "batched.png"
RUNS = ROOT / ".bench" / "batched"
ROUNDS = 3
"""Interleaved; each has its own seed."""
EPISODES = 50
ALONE_SECONDS = 1.0
QUIET_SECONDS = 0.5


@dataclass(frozen=True)
class Task:
    """A simulator that both Gymnasium and EnvPool have, and how it is learned."""

    name: str
    steps: int
    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Contestant:
    """A way to step simulators; `size` is that of a group."""

    title: str
    prefix: str
    vectorized: bool
    groups: int
    size: int

    def simulator(self, task: Task) -> list[str]:
        """Return the arguments that name the simulator."""
        chosen = ["--set", "env.vectorized=true"] if self.vectorized else []
        return [f"{self.prefix}{task.name}", *chosen]


@dataclass
class Measured:
    """What came of a contestant's rounds."""

    training: list[float] = field(default_factory=list)
    sampling: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    learning_share: list[float] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)
    curves: list[list[tuple[int, float]]] = field(default_factory=list)


TASKS = (
    Task("CartPole-v1", 100_000),
    Task("Pendulum-v1", 300_000, ("algorithm.gamma=0.95", "algorithm.lr=1e-3")),
)
LAYOUTS = ((8, 8), (1, 64))
WAYS = (("single simulators", "", False), ("gymnasium.make_vec", "", True), ("EnvPool", "envpool:", False))
CONTESTANTS = tuple(
    Contestant(f"{title}, {groups} x {size}", prefix, vectorized, groups, size)
    for groups, size in LAYOUTS
    for title, prefix, vectorized in WAYS
)


def run() -> str:
    """Let all contestants train in turn, several rounds; return the page."""
    measured = {(task, way): Measured() for task in TASKS for way in CONTESTANTS}
    others = []
    for seed in range(ROUNDS):
        for task in TASKS:
            for way in CONTESTANTS:
                others.append(psutil.cpu_percent(QUIET_SECONDS) / 100)
                _train(task, way, seed, measured[task, way])
                measured[task, way].alone.append(_alone(task, way))
    _plot(measured)
    return _page(measured, others)


def _train(task: Task, way: Contestant, seed: int, measured: Measured) -> None:
    name = f"{task.name}-{way.title}-{seed}".replace(" ", "").replace(",", "-")
    folder = RUNS / name
    settings = [f"resources.env_groups={way.groups}", f"resources.envs_per_group={way.size}", *task.settings]
    flags = [part for setting in settings for part in ("--set", setting)]
    shutil.rmtree(folder, ignore_errors=True)
    common = ("--runs-dir", str(RUNS), "--json")
    muster(
        "train",
        *way.simulator(task),
        *flags,
        *("--workers", "0", "--stop-steps", str(task.steps), "--seed", str(seed), "--name", name),
        *common,
    )
    with (folder / "metrics.csv").open() as file:
        rows = [{key: float(value or "nan") for key, value in row.items()} for row in csv.DictReader(file)]
    first, last = rows[0], rows[-1]
    steps = last["steps"] - first["steps"]
    sampling, learning = (sum(row[f"time/{part}"] for row in rows[1:]) for part in ("sample", "learn"))
    measured.training.append(steps / (last["time/total"] - first["time/total"]))
    measured.sampling.append(steps / sampling)
    measured.learning_share.append(learning / (last["time/total"] - first["time/total"]))
    measured.curves.append([(int(row["steps"]), row["return/mean"]) for row in rows])
    evaluated = muster("evaluate", name, "--checkpoint", "latest", "--episodes", str(EPISODES), *common)
    measured.returns.append(evaluated["return_mean"])


def _alone(task: Task, way: Contestant) -> float:
    """Return the steps a second of the simulators alone, in a process of their own."""
    arguments = [f"{way.prefix}{task.name}", str(int(way.vectorized)), str(way.size)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.batched", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return float(done.stdout.splitlines()[-1])


def _step_alone(identifier: str, vectorized: bool, size: int) -> float:
    from muster.simulators.simulator import Simulator

    simulator = Simulator(identifier, vectorized=vectorized or None)
    is_batch = vectorized or identifier.startswith("envpool:")
    step = _batch_step(simulator, size) if is_batch else _single_steps(simulator, size)
    step()
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < ALONE_SECONDS:
        step()
        count += size
    return count / (time.perf_counter() - began)


def _batch_step(simulator: Any, size: int) -> Callable[[], None]:
    from gymnasium.vector import AutoresetMode

    from muster.stepping.batches import autoreset_mode, build_batch, reset_batch

    batch = build_batch(simulator, size, 0, range(size))
    reset_batch(batch, range(size))
    actions = [batch.action_space.sample() for _ in range(64)]
    resets = autoreset_mode(batch) is AutoresetMode.DISABLED
    number = 0

    def step() -> None:
        nonlocal number
        number += 1
        _, _, terminated, truncated, _ = batch.step(actions[number % len(actions)])
        if resets and (over := np.asarray(terminated) | np.asarray(truncated)).any():
            reset_batch(batch, [0] * size, over)

    return step


def _single_steps(simulator: Any, size: int) -> Callable[[], None]:
    from muster.stepping.building import build

    envs = [build(simulator) for _ in range(size)]
    for env in envs:
        env.reset(seed=0)
    actions = [envs[0].action_space.sample() for _ in range(64)]
    number = 0

    def step() -> None:
        nonlocal number
        number += 1
        for env in envs:
            _, _, terminated, truncated, _ = env.step(actions[number % len(actions)])
            if terminated or truncated:
                env.reset(seed=0)

    return step


def _page(measured: dict[tuple[Task, Contestant], Measured], others: list[float]) -> str:
    lines = [
        "# Batched simulators",
        "",
        "`make bench ONLY=batched`: PPO in one process, the same settings for all, 64 simulators in groups as "
        f"named. Thousands of steps a second, medians (range) of {ROUNDS} interleaved rounds, the first iteration "
        "left out; *alone* are the simulators without muster, with random actions. Returns: the last checkpoint, "
        f"deterministic, {EPISODES} episodes, for each seed. {os.cpu_count()} CPUs; between runs, other processes "
        f"used {statistics.median(others):.0%} of them (at most {max(others):.0%}).",
    ]
    for task in TASKS:
        lines += [
            "",
            f"## {task.name}, {task.steps:,} steps",
            "",
            "| simulators | training | sampling | alone | of the time, learning | returns |",
            "|---|---|---|---|---|---|",
        ]
        for way in CONTESTANTS:
            found = measured[task, way]
            share = statistics.median(found.learning_share)
            returns = ", ".join(f"{total:.0f}" for total in found.returns)
            speeds = " | ".join(map(_thousands, (found.training, found.sampling, found.alone)))
            lines.append(f"| {way.title} | {speeds} | {share:.0%} | {returns} |")
    return "\n".join([*lines, "", f"![returns while learning]({PLOT.name})", ""])


def _thousands(speeds: list[float]) -> str:
    low, middle, high = (value / 1e3 for value in (min(speeds), statistics.median(speeds), max(speeds)))
    return f"{middle:.1f} ({low:.1f}-{high:.1f})"


def _plot(measured: dict[tuple[Task, Contestant], Measured]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(TASKS), figsize=(6 * len(TASKS), 4))
    for axis, task in zip(axes, TASKS, strict=True):
        for number, way in enumerate(CONTESTANTS):
            for k, curve in enumerate(measured[task, way].curves):
                steps, returns = zip(*curve, strict=True)
                label = way.title if k == 0 else None
                axis.plot(steps, returns, color=f"C{number}", linewidth=0.9, label=label)
        axis.set(title=task.name, xlabel="steps", ylabel="mean return of 100 episodes")
    axes[0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(PLOT, dpi=110)


if __name__ == "__main__":
    print(_step_alone(sys.argv[1], bool(int(sys.argv[2])), int(sys.argv[3])))
