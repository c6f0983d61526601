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

import psutil

from benchmarks.peers.environments import FOLDER, python_of

HERE = Path(__file__).parent
ROUNDS = 3
QUIET_SECONDS = 0.5
MEAN, EVALUATION = 2, 3
"""Where in an entry of a curve the two judges of a policy are."""
LIMIT_SECONDS = 240.0
LIMIT_STEPS = 3000
WORK = (
    "Median (range) of the interleaved rounds, one process and environment each. The same learning work: 4,096 "
    "steps a batch, 10 epochs, minibatches of 128, two nets of 64-64 tanh units, the same loss, nothing scaled "
    "but advantages (TRPO: 10 conjugate-gradient steps). The number is that of simulators."
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
    until the mean return of a hundred episodes gets there, or the time is over; where that `is_evaluated`, the
    policy of each iteration is then played deterministically, up to the first that reaches the goal.
    """

    title: str
    workload: str
    contestants: Sequence[Contestant]
    iterations: int = 11
    has_limit: bool = False
    goal: float | None = None
    seconds: float | None = None
    is_evaluated: bool = False
    rounds: int = ROUNDS


@dataclass
class Results:
    """What each contestant did in each round, and what share of the CPUs others used before each run."""

    speeds: dict[str, list[float]] = field(default_factory=dict)
    shares: dict[str, list[float]] = field(default_factory=dict)
    first: dict[str, list[float]] = field(default_factory=dict)
    curves: dict[str, list[list[list[Any]]]] = field(default_factory=dict)
    others: list[float] = field(default_factory=list)


OURS = Contestant("muster, 64 in process", "muster", "muster_ppo", ("--envs", "64"))
OURS_OVERLAP = Contestant(
    "muster, 1 worker of 8, overlap", "muster", "muster_ppo", ("--parallel", "--workers", "1", "--overlap")
)
OURS_WORKERS_OVERLAP = Contestant(
    "muster, 2 workers of 8, overlap", "muster", "muster_ppo", ("--parallel", "--overlap")
)
OURS_WORKERS = Contestant("muster, 2 workers of 8", "muster", "muster_ppo", ("--parallel",))
OURS_SMALL = Contestant("muster, 8 in process", "muster", "muster_ppo")
SB3 = Contestant("Stable-Baselines3, 8", "sb3", "sb3")
SB3_WIDE = Contestant("Stable-Baselines3, 64", "sb3", "sb3", ("--envs", "64"))
SB3_WORKERS = Contestant("Stable-Baselines3, 8 processes", "sb3", "sb3", ("--parallel",))
SINGLE = Contestant("one file of torch (CleanRL's way), 8", "sb3", "single_file")
SINGLE_WIDE = Contestant("one file of torch (CleanRL's way), 64", "sb3", "single_file", ("--envs", "64"))
TIANSHOU = Contestant("Tianshou, 8", "tianshou", "tianshou_ppo")
TORCHRL = Contestant("TorchRL, 8", "torchrl", "torchrl_ppo")
PUFFER = Contestant("PufferLib 3, 8, serial", "pufferlib", "pufferlib_ppo")
FACTORY = Contestant("Sample Factory, 2 processes of 8", "sample_factory", "sample_factory_ppo", ("--parallel",))
PUFFER_WORKERS = Contestant("PufferLib 3, 2 processes of 4", "pufferlib", "pufferlib_ppo", ("--parallel",))
RLLIB = Contestant("RLlib, 2 runners of 8", "rllib", "rllib_ppo", ("--parallel",))
OURS_TRPO = Contestant(
    "muster TRPO, 64 in process", "muster", "muster_ppo", ("--envs", "64", "--algorithm", "trpo")
)
OURS_SMALL_TRPO = Contestant("muster TRPO, 8 in process", "muster", "muster_ppo", ("--algorithm", "trpo"))
OURS_OVERLAP_TRPO = Contestant(
    "muster TRPO, 1 worker of 8, overlap", "muster", "muster_ppo", (*OURS_OVERLAP.flags, "--algorithm", "trpo")
)
SB3_TRPO = Contestant("sb3-contrib TRPO, 8", "sb3", "sb3", ("--algorithm", "trpo"))
SB3_TRPO_WIDE = Contestant("sb3-contrib TRPO, 64", "sb3", "sb3", ("--envs", "64", "--algorithm", "trpo"))
PEERS = (SB3, SB3_WIDE, SINGLE, SINGLE_WIDE, TIANSHOU, TORCHRL, PUFFER, FACTORY, RLLIB)


def hold_all(contests: Sequence[Contest], json_file: Path, part: str) -> tuple[list[str], dict[str, Any]]:
    """Hold contests one after another; return the lines of their tables, and all figures, which it also saves.

    With a part of a title, only those contests are held that have it, and the others' figures are what they were.
    """
    if not any(part in contest.title for contest in contests):
        sys.exit(f"no contest with {part!r} in its title; there are: {', '.join(c.title for c in contests)}")
    figures: dict[str, Any] = json.loads(json_file.read_text(encoding="utf-8")) if part else {}
    lines: list[str] = []
    for contest in contests:
        if part in contest.title:
            figures[contest.title] = vars(_hold(contest))
            json_file.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
            print("\n".join(_table(contest, Results(**figures[contest.title]))), file=sys.stderr, flush=True)
        lines += ["", *_table(contest, Results(**figures[contest.title]))]
    return lines, figures


def machine(figures: dict[str, Any]) -> str:
    """Return what the machine is, and how much of it other processes used while nobody ran."""
    others = [share for results in figures.values() for share in results["others"]]
    return (
        f"{os.cpu_count()} CPUs; between runs, other processes used {statistics.median(others):.0%} of them "
        f"(at most {max(others):.0%})."
    )


def _hold(contest: Contest) -> Results:
    results = Results()
    for number in range(contest.rounds):
        for contestant in contest.contestants:
            results.others.append(psutil.cpu_percent(QUIET_SECONDS) / 100)
            limits = [_limit(contest.workload)] if contest.has_limit else []
            entries = _run(contestant, contest, seed=number)
            if not entries:
                continue
            if contest.has_limit:
                limits.append(_limit(contest.workload))
            (began, first_steps, *_), (ended, last_steps, *_) = entries[0], entries[-1]
            speed = (last_steps - first_steps) / (ended - began)
            results.speeds.setdefault(contestant.title, []).append(speed)
            results.first.setdefault(contestant.title, []).append(began)
            if limits:
                results.shares.setdefault(contestant.title, []).append(speed / statistics.mean(limits))
            if contest.goal is not None:
                results.curves.setdefault(contestant.title, []).append(entries)
    return results


def _run(contestant: Contestant, contest: Contest, seed: int) -> list[list[Any]]:
    """Run a contestant; return its entries: seconds since its start, steps, mean return, evaluation.

    There are none if it failed.
    """
    python = python_of(contestant.peer)
    if python is None:
        return []
    program = HERE / "peers" / f"{contestant.program}.py"
    command = [str(python), str(program), contest.workload, "--iterations", str(contest.iterations)]
    command += [*contestant.flags, "--seed", str(seed)]
    if contest.goal is not None:
        command += ["--goal", str(contest.goal), "--seconds", str(contest.seconds)]
        command += ["--evaluate"] if contest.is_evaluated else []
    environment = {**os.environ, "BENCH_STARTED": repr(time.time()), "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
            cwd=HERE.parent if contestant.is_ours else FOLDER,
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
    if contest.goal is not None:
        columns += [f"mean return {contest.goal:g} after, s", "steps"]
        columns += [f"evaluated at {contest.goal:g} after, s", "steps"] if contest.is_evaluated else []
    lines = [f"## {contest.title}", "", "| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for contestant in contest.contestants:
        title = contestant.title
        if title not in results.speeds:
            lines.append(f"| {title} |" + " - |" * (len(columns) - 1))
            continue
        speed = statistics.median(results.speeds[title])
        cells = [title, median_and_range(results.speeds[title], "{:,.0f}"), f"{speed / best:.2f}"]
        cells.append(median_and_range(results.first[title], "{:.1f}"))
        if contest.has_limit:
            cells.append(median_and_range(results.shares[title], "{:.2f}"))
        if contest.goal is not None:
            cells += _reached(contest, results.curves[title], MEAN)
            cells += _reached(contest, results.curves[title], EVALUATION) if contest.is_evaluated else []
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _reached(contest: Contest, curves: Sequence[list[list[Any]]], judge: int) -> list[str]:
    """Return when and after how many steps the goal was reached, or how far it was when the time was over."""
    assert contest.goal is not None
    firsts = []
    for curve in curves:
        known = [entry for entry in curve if entry[judge] is not None]
        firsts.append(next((entry for entry in known if entry[judge] >= contest.goal), None))
        if firsts[-1] is None:
            best = max((entry[judge] for entry in known), default=float("nan"))
            return [f"not in {contest.seconds:g}, at {best:.3g}", f"{curve[-1][1]:,.0f}"]
    return [
        median_and_range([entry[0] for entry in firsts if entry], "{:.1f}"),
        median_and_range([float(entry[1]) for entry in firsts if entry], "{:,.0f}"),
    ]


def median_and_range(values: Sequence[float], form: str) -> str:
    """Return the middle of several measurements, and how far they lie apart."""
    median, low, high = (form.format(value) for value in (statistics.median(values), min(values), max(values)))
    return f"{median} ({low} to {high})"
