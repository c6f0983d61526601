"""Contests between frameworks, ours and others', on the same simulators with the same learning work.

Every contestant runs in its own process and environment, in turn, several rounds.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import python_of

HERE = Path(__file__).parent
ROUNDS = 3
LIMIT_SECONDS = 240.0
LIMIT_STEPS = 3000
WORK = (
    f"Median (range) of {ROUNDS} interleaved rounds, one process and environment each. The same learning work: "
    "4,096 steps a batch, 10 epochs, minibatches of 128, two nets of 64-64 tanh units "
    "(TRPO: 10 conjugate-gradient steps)."
)


@dataclass(frozen=True)
class Contestant:
    """A program of `peers/`, how it is run, and what it is called."""

    title: str
    peer: str
    program: str
    flags: tuple[str, ...] = ()

    @property
    def is_ours(self) -> bool:
        """Whether it is muster."""
        return self.peer == "muster"


@dataclass(frozen=True)
class Contest:
    """A workload and who takes part.

    With a limit, speeds are also compared with two processes that only step the simulator. With a goal, all train
    until they get there, or until the time is over.
    """

    title: str
    workload: str
    contestants: Sequence[Contestant]
    iterations: int = 6
    has_limit: bool = False
    goal: float | None = None
    seconds: float | None = None


@dataclass
class Results:
    """What each contestant did in each round."""

    speeds: dict[str, list[float]] = field(default_factory=dict)
    shares: dict[str, list[float]] = field(default_factory=dict)
    first: dict[str, list[float]] = field(default_factory=dict)
    curves: dict[str, list[list[list[Any]]]] = field(default_factory=dict)


OURS = Contestant("muster, 64 simulators, in process", "muster", "muster_ppo", ("--envs", "64"))
OURS_OVERLAP = Contestant(
    "muster, 64 simulators, 2 workers, overlap",
    "muster",
    "muster_ppo",
    ("--envs", "64", "--parallel", "--overlap"),
)
OURS_WORKERS = Contestant(
    "muster, 64 simulators, 2 workers", "muster", "muster_ppo", ("--envs", "64", "--parallel")
)
OURS_SMALL = Contestant("muster, 8 simulators, in process", "muster", "muster_ppo")
SB3 = Contestant("Stable-Baselines3, 8", "sb3", "sb3")
SB3_WIDE = Contestant("Stable-Baselines3, 64", "sb3", "sb3", ("--envs", "64"))
SB3_WORKERS = Contestant("Stable-Baselines3, 8 processes", "sb3", "sb3", ("--parallel",))
SINGLE = Contestant("one file of torch (CleanRL's way), 8", "sb3", "single_file")
TIANSHOU = Contestant("Tianshou, 8", "tianshou", "tianshou_ppo")
TORCHRL = Contestant("TorchRL, 8", "torchrl", "torchrl_ppo")
PUFFER = Contestant("PufferLib 3, 8, serial", "pufferlib", "pufferlib_ppo")
FACTORY = Contestant("Sample Factory, 2 processes of 8", "sample_factory", "sample_factory_ppo", ("--parallel",))
RLLIB = Contestant("RLlib, 2 runners of 8", "rllib", "rllib_ppo", ("--parallel",))
OURS_TRPO = Contestant(
    "muster TRPO, 64 simulators, in process", "muster", "muster_ppo", ("--envs", "64", "--algorithm", "trpo")
)
OURS_SMALL_TRPO = Contestant(
    "muster TRPO, 8 simulators, in process", "muster", "muster_ppo", ("--algorithm", "trpo")
)
SB3_TRPO = Contestant("sb3-contrib TRPO, 8", "sb3", "sb3", ("--algorithm", "trpo"))
PEERS = (SB3, SB3_WIDE, SINGLE, TIANSHOU, TORCHRL, PUFFER, FACTORY, RLLIB)


def hold_all(contests: Sequence[Contest], json_file: Path) -> tuple[list[str], dict[str, Any]]:
    """Hold contests one after another; return the lines of their tables, and all figures, which it also saves."""
    lines: list[str] = []
    figures = {}
    for contest in contests:
        results = _hold(contest)
        figures[contest.title] = vars(results)
        table = _table(contest, results)
        lines += ["", *table]
        print("\n".join(table), file=sys.stderr, flush=True)
        json_file.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return lines, figures


def machine() -> str:
    """Return what the machine is, and how busy it is now."""
    return f"{os.cpu_count()} CPUs; load before it began: {os.getloadavg()[0]:.2f}."


def _hold(contest: Contest) -> Results:
    results = Results()
    for number in range(ROUNDS):
        for contestant in contest.contestants:
            limits = [_limit(contest.workload)] if contest.has_limit else []
            entries = _run(contestant, contest, seed=number)
            if not entries:
                continue
            if contest.has_limit:
                limits.append(_limit(contest.workload))
            (began, first_steps, _), (ended, last_steps, _) = entries[0], entries[-1]
            speed = (last_steps - first_steps) / (ended - began)
            results.speeds.setdefault(contestant.title, []).append(speed)
            results.first.setdefault(contestant.title, []).append(began)
            if limits:
                results.shares.setdefault(contestant.title, []).append(speed / statistics.mean(limits))
            if contest.goal is not None:
                results.curves.setdefault(contestant.title, []).append(entries)
    return results


def _run(contestant: Contestant, contest: Contest, seed: int) -> list[list[Any]]:
    """Run a contestant; return its entries (seconds since its start, steps, mean return), none if it failed."""
    python = python_of(contestant.peer)
    if python is None:
        return []
    program = HERE / "peers" / f"{contestant.program}.py"
    command = [str(python), str(program), contest.workload, "--iterations", str(contest.iterations)]
    command += [*contestant.flags, "--seed", str(seed)]
    if contest.goal is not None:
        command += ["--goal", str(contest.goal), "--seconds", str(contest.seconds)]
    environment = {**os.environ, "BENCH_STARTED": repr(time.time()), "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
            cwd=HERE.parent,
        )
    except subprocess.TimeoutExpired:
        print(f"{contestant.title}: not done after {LIMIT_SECONDS:g} s", file=sys.stderr)
        return []
    reports = [line for line in done.stdout.splitlines() if line.startswith('{"entries"')]
    if not reports:
        print(f"{contestant.title}: failed\n{done.stderr[-2000:]}", file=sys.stderr)
        return []
    entries: list[list[Any]] = json.loads(reports[-1])["entries"]
    return entries


_STEP_ALONE = """
import sys, time
from benchmarks.workloads import make
env = make(sys.argv[1])
env.action_space.seed(0)
env.reset(seed=0)
began = time.perf_counter()
for _ in range(int(sys.argv[2])):
    _, _, terminated, truncated, _ = env.step(env.action_space.sample())
    if terminated or truncated:
        env.reset()
print(int(sys.argv[2]) / (time.perf_counter() - began))
"""


def _limit(workload: str) -> float:
    """Return the steps a second of two processes that only step the simulator."""
    command = [sys.executable, "-c", _STEP_ALONE, workload, str(LIMIT_STEPS)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HERE.parent) for _ in range(2)]
    return sum(float(process.communicate()[0]) for process in processes)


def _table(contest: Contest, results: Results) -> list[str]:
    peers = [
        statistics.median(results.speeds[c.title])
        for c in contest.contestants
        if not c.is_ours and c.title in results.speeds
    ]
    best = max(peers, default=float("nan"))
    columns = ["", "steps/s", "of the fastest peer", "start to first result, s"]
    columns += ["of the limit"] if contest.has_limit else []
    columns += ["solved after, s", "steps"] if contest.goal is not None else []
    lines = [f"## {contest.title}", "", "| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for contestant in contest.contestants:
        title = contestant.title
        if title not in results.speeds:
            lines.append(f"| {title} |" + " - |" * (len(columns) - 1))
            continue
        speed = statistics.median(results.speeds[title])
        cells = [title, _range(results.speeds[title], "{:,.0f}"), f"{speed / best:.2f}"]
        cells.append(_range(results.first[title], "{:.1f}"))
        if contest.has_limit:
            cells.append(_range(results.shares[title], "{:.2f}"))
        if contest.goal is not None:
            cells += _solved(contest, results.curves[title])
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _solved(contest: Contest, curves: Sequence[list[list[Any]]]) -> list[str]:
    """Return when and after how many steps the goal was reached, or how far it was when the time was over."""
    ends = [curve[-1] for curve in curves]
    assert contest.goal is not None
    if any(mean is None or mean < contest.goal for _, _, mean in ends):
        means = [mean for _, _, mean in ends if mean is not None]
        reached = f", at {statistics.median(means):.0f}" if means else ""
        return [f"not in {contest.seconds:g}{reached}", _range([float(steps) for _, steps, _ in ends], "{:,.0f}")]
    return [
        _range([seconds for seconds, _, _ in ends], "{:.1f}"),
        _range([float(steps) for _, steps, _ in ends], "{:,.0f}"),
    ]


def _range(values: Sequence[float], form: str) -> str:
    median, low, high = (form.format(value) for value in (statistics.median(values), min(values), max(values)))
    return f"{median} ({low} to {high})"
