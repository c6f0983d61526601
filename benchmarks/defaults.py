"""What the defaults learn: `muster train TASK --stop-steps N` with no other flag, beside other frameworks.

Each finished run is a line of a file, so a benchmark that was broken off continues where it was.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.learned import EPISODES, done_in_parallel, learn, thinned
from benchmarks.peers.environments import FOLDER, python_of
from muster.statistics import interval_of_mean

HERE = Path(__file__).parent
RESULTS_FILE = HERE / "results" / "defaults.jsonl"
RESAMPLES = 10_000
OURS, DEFAULTS, ZOO = "muster", "Stable-Baselines3, defaults", "Stable-Baselines3, the Zoo's file"
ALGORITHMS = ("PPO", "TRPO")


@dataclass(frozen=True)
class Task:
    """A simulator, how long it is trained in, and with which seeds."""

    name: str
    steps: int
    seeds: range = range(5)
    peers: tuple[str, ...] = ()
    algorithms: tuple[str, ...] = ALGORITHMS

    @property
    def title(self) -> str:
        """What tables call it."""
        return self.name.rpartition(":")[2]


BOTH = (DEFAULTS, ZOO)
TASKS = (
    Task("Hopper-v5", 1_000_000, range(10), BOTH),
    Task("HalfCheetah-v5", 1_000_000, range(10), BOTH),
    Task("Walker2d-v5", 1_000_000, range(10), BOTH),
    Task("Ant-v5", 1_000_000),
    Task("Swimmer-v5", 1_000_000, range(10)),
    Task("InvertedDoublePendulum-v5", 1_000_000),
    Task("Reacher-v5", 1_000_000),
    Task("CartPole-v1", 100_000),
    Task("Acrobot-v1", 1_000_000, algorithms=("PPO",)),
    Task("Acrobot-v1", 100_000, algorithms=("TRPO",)),
    Task("Pendulum-v1", 100_000),
    Task("MountainCar-v0", 1_000_000, algorithms=("PPO",)),
    Task("MountainCar-v0", 100_000, algorithms=("TRPO",)),
    Task("MountainCarContinuous-v0", 20_000, algorithms=("PPO",)),
    Task("MountainCarContinuous-v0", 50_000, algorithms=("TRPO",)),
    Task("LunarLander-v3", 1_000_000, algorithms=("PPO",)),
    Task("LunarLander-v3", 200_000, algorithms=("TRPO",)),
    Task("benchmarks.science:Queue", 300_000),
    Task("benchmarks.science:Building", 300_000),
)
PEER_SEEDS = range(3)
PUBLISHED = {
    ("PPO", "HalfCheetah-v5"): "Zoo 5819 ± 664, Tianshou 5784 ± 1244, CleanRL 1443 ± 46",
    ("PPO", "Hopper-v5"): "Zoo 2410 ± 10, Tianshou 2609 ± 701, CleanRL 2383 ± 272",
    ("PPO", "Walker2d-v5"): "Zoo 3479 ± 822, Tianshou 3589 ± 757, CleanRL 2288 ± 572",
    ("PPO", "Ant-v5"): "Zoo 1327 ± 452, Tianshou 3258 ± 1079",
    ("PPO", "Swimmer-v5"): "Zoo 282 ± 10, Tianshou 67 ± 99",
    ("TRPO", "HalfCheetah-v5"): "Zoo 1785 ± 69, sb3-contrib 1803 ± 46, Tianshou 4471 ± 805",
    ("TRPO", "Hopper-v5"): "Zoo 3618 ± 357, sb3-contrib 3372 ± 215, Tianshou 2046 ± 1038",
    ("TRPO", "Walker2d-v5"): "Zoo 4933 ± 1453, sb3-contrib 4502 ± 234, Tianshou 3827 ± 783",
    ("TRPO", "Ant-v5"): "Zoo 4982 ± 664, sb3-contrib 3554 ± 591, Tianshou 2867 ± 708",
    ("TRPO", "Swimmer-v5"): "Zoo 366 ± 2, sb3-contrib 359 ± 2, Tianshou 41 ± 20",
}
"""Returns after a million steps of the versions v3 and v4 of the tasks."""


@dataclass(frozen=True)
class Job:
    """One run."""

    who: str
    algorithm: str
    task: str
    steps: int
    seed: int


def run(part: str = "") -> str:
    """Do the runs that are missing; `part` names a task, an algorithm, or `muster` for ours alone."""
    found = results()
    wanted = [job for job in _jobs() if job not in found and part in f"{vars(job)}"]
    if any(job.who != OURS for job in wanted):
        python_of("sb3")  # Its environment is made before several processes want it.
    for job, outcome in done_in_parallel(_learn, wanted):
        with RESULTS_FILE.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**vars(job), **outcome}) + "\n")
        print(f"{job}: {outcome['latest']:.1f} after {outcome['seconds']:.0f} s", file=sys.stderr, flush=True)
    return page(results())


def _learn(job: Job) -> dict[str, Any]:
    return _ours(job) if job.who == OURS else _peer(job)


def results() -> dict[Job, dict[str, Any]]:
    """Return what has been measured."""
    if not RESULTS_FILE.exists():
        return {}
    lines = [json.loads(line) for line in RESULTS_FILE.read_text(encoding="utf-8").splitlines()]
    return {Job(**{name: line.pop(name) for name in Job.__dataclass_fields__}): line for line in lines}


def _jobs() -> Iterator[Job]:
    """Yield all runs, a seed of every task before the next seed."""
    for seed in range(max(len(task.seeds) for task in TASKS)):
        for task in TASKS:
            for algorithm in task.algorithms:
                if seed in task.seeds:
                    yield Job(OURS, algorithm, task.name, task.steps, seed)
                if seed in PEER_SEEDS:
                    for peer in task.peers:
                        yield Job(peer, algorithm, task.name, task.steps, seed)


def _ours(job: Job) -> dict[str, Any]:
    name = f"{job.task.rpartition(':')[2]}-{job.algorithm}-{job.steps}-{job.seed}".lower()
    return learn(name, job.task, job.algorithm, job.steps, job.seed)


def _peer(job: Job) -> dict[str, Any]:
    python = python_of("sb3")
    if python is None:
        raise RuntimeError("Stable-Baselines3 does not install here")
    flags = ["--algorithm", job.algorithm.lower(), "--settings", "defaults" if job.who == DEFAULTS else "zoo"]
    flags += ["--steps", str(job.steps), "--seed", str(job.seed), "--episodes", str(EPISODES)]
    command = [str(python), str(HERE / "peers" / "sb3_learning.py"), job.task, *flags]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=FOLDER, env=environment)
    outcome: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**outcome, "curve": thinned(outcome["curve"])}


def page(found: dict[Job, dict[str, Any]]) -> str:
    """Return the tables of what has been measured so far."""
    lines = [
        "# What the defaults learn",
        "",
        "`make bench ONLY=defaults`: `muster train TASK --stop-steps N`, no other flag but the seed. "
        "Interquartile mean over seeds and, in brackets, its 95 % bootstrap interval, of the deterministic return "
        f"over {EPISODES} episodes with the last checkpoint and with the best one (by "
        "evaluations in training; in seeds 0 to 3 of the first three tasks by training return), and of "
        "the mean training return of the last 100 episodes. Seconds: median of the training's processor time, one "
        "thread. Published returns are of older versions of the tasks: Tianshou's are the best point of "
        "training, the Zoo's an evaluation of one agent, CleanRL's training returns.",
    ]
    if any(job.who != OURS for job in found):
        lines[-1] += (
            " Stable-Baselines3 and sb3-contrib ran here too, in `VecNormalize`, with their defaults and with the "
            "hyperparameters of RL Baselines3 Zoo."
        )
    for algorithm in ALGORITHMS:
        lines += [
            "",
            f"## {algorithm}",
            "",
            "| task | steps | who | seeds | last checkpoint | best | training | s |",
        ]
        lines.append("|---|---|---|---|---|---|---|---|")
        for task in TASKS:
            for who in (OURS, *task.peers):
                runs = [
                    outcome
                    for job, outcome in found.items()
                    if (job.who, job.algorithm, job.task, job.steps) == (who, algorithm, task.name, task.steps)
                ]
                if runs:
                    lines.append(_row(task, who, runs))
            is_measured = any((job.algorithm, job.task) == (algorithm, task.name) for job in found)
            if is_measured and (algorithm, task.name) in PUBLISHED:
                lines.append(f"| {task.title} | | *published* | | {PUBLISHED[algorithm, task.name]} | | | |")
    return "\n".join(lines) + "\n"


def _row(task: Task, who: str, runs: list[dict[str, Any]]) -> str:
    cells = [task.title, f"{task.steps:,}", who, str(len(runs))]
    for values in (
        [run["latest"] for run in runs],
        [run["best"] for run in runs if "best" in run],
        [run["curve"][-1][1] for run in runs],
    ):
        cells.append(_cell(values) if values else "")
    cells.append(f"{np.median([run['seconds'] for run in runs]):.0f}")
    return f"| {' | '.join(cells)} |"


def _cell(values: list[float]) -> str:
    if len(values) < 3:
        return ", ".join(f"{value:.5g}" for value in values)
    found = interval_of_mean(values, RESAMPLES)
    return f"{found.value:.5g} [{found.low:.5g}, {found.high:.5g}]"
