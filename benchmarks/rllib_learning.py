"""What RLlib's algorithms learn through muster, and the two PPOs side by side: curves and throughput."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.commands import muster

HERE = Path(__file__).parent
EXPERIMENTS = HERE / "experiments"
RATIO = HERE.parent / "examples" / "ratio" / "ratio_rllib.toml"
PLOT = HERE / "results" / "rllib_learning.png"
RUNS = HERE.parent / ".bench" / "rllib_learning"
"""Kept, so that a benchmark that was broken off goes on where it was."""
SEEDS = range(5)
EPISODES = 100


@dataclass(frozen=True)
class Case:
    """A file to train, and the return that it must reach; None if it is only to run."""

    title: str
    arguments: list[str]
    goal: float | None


_PPO_FLAGS = ["--engine", "rllib", "--stop-steps", "300000", "--stop-return", "450"]
CASES = [
    Case("CartPole-v1, DQN, at most 200,000 steps", [str(EXPERIMENTS / "dqn_cartpole.toml")], 450.0),
    Case(
        "CartPole-v1, PPO, at most 300,000 steps",
        [str(EXPERIMENTS / "ppo_cartpole.toml"), *_PPO_FLAGS],
        450.0,
    ),
    Case("Pendulum-v1, SAC", [str(EXPERIMENTS / "sac_pendulum.toml")], -250.0),
    Case("CartPole-v1, APPO", [str(EXPERIMENTS / "appo_cartpole.toml")], 300.0),
    Case("CartPole-v1, IMPALA", [str(EXPERIMENTS / "impala_cartpole.toml")], 300.0),
    Case("CartPole-v1, DreamerV3, runs", [str(EXPERIMENTS / "dreamerv3_cartpole.toml")], None),
    Case("Pendulum-v1, TQC, runs", [str(EXPERIMENTS / "tqc_pendulum.toml")], None),
    Case("ratio, PPO with a module of its own", [str(RATIO)], -1e-3),
]
ENGINES = ("builtin", "rllib")
WHY_LATER = (
    "The built-in engine steps 64 simulators at once where RLlib steps 8 in each env runner, so that its long "
    "episodes end, and are counted, some 30,000 steps later: the dent in its curves."
)


def run() -> str:
    """Train every case once, and the same PPO file on both engines with five seeds."""
    lines = [
        "# Learning on RLlib",
        "",
        f"`muster train FILE`, then `muster evaluate`: best checkpoint, deterministic, {EPISODES} episodes.",
        "",
        "| experiment | goal | return | steps | seconds | reached |",
        "|---|---|---|---|---|---|",
        *(_row(case) for case in CASES),
        "",
        "## The two PPOs, same file and hyperparameters",
        "",
        "`benchmarks/experiments/ppo_cartpole.toml`, five seeds. Mean return of the last 100 episodes at the end; "
        "steps until it first reached 195; steps a second of the whole run, median and range.",
        "",
        "| engine | final return, mean and range | steps to 195 | steps/s |",
        "|---|---|---|---|",
    ]
    curves: dict[str, list[dict[str, Any]]] = {engine: [] for engine in ENGINES}
    for seed in SEEDS:
        for engine in ENGINES:
            curves[engine].append(_curve(engine, seed))
    lines += [_summary(engine, curves[engine]) for engine in ENGINES]
    _plot(curves)
    lines += ["", WHY_LATER, "", f"![return by steps]({PLOT.name})"]
    return "\n".join(lines) + "\n"


def _row(case: Case) -> str:
    name = case.title.replace(",", "").replace(" ", "-")
    common = ["--runs-dir", str(RUNS), "--json"]
    trained = muster("train", *case.arguments, "--name", name, "--resume", *common)
    seconds = _columns(RUNS / name)["time/total"][-1]
    evaluated = muster("evaluate", name, "--episodes", str(EPISODES), *common)
    value = float(evaluated["return_mean"])
    reached = "runs" if case.goal is None else "yes" if value >= case.goal else "no"
    goal = "-" if case.goal is None else f"{case.goal:g}"
    return f"| {case.title} | {goal} | {value:.4g} | {trained['steps']:,} | {seconds:,.0f} | {reached} |"


def _curve(engine: str, seed: int) -> dict[str, Any]:
    """Train the shared file on one engine; return its columns."""
    name = f"ppo-{engine}-{seed}"
    arguments = [
        "--engine",
        engine,
        "--seed",
        str(seed),
        "--name",
        name,
        "--resume",
        "--runs-dir",
        str(RUNS),
        "--json",
    ]
    muster("train", str(EXPERIMENTS / "ppo_cartpole.toml"), *arguments)
    return _columns(RUNS / name)


def _columns(run: Path) -> dict[str, Any]:
    with (run / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    names = ("steps", "return/mean", "time/total")
    return {name: np.array([float(row[name] or "nan") for row in rows]) for name in names}


def _summary(engine: str, curves: list[dict[str, Any]]) -> str:
    finals = [curve["return/mean"][-1] for curve in curves]
    reached = [_steps_to(curve, 195.0) for curve in curves]
    speeds = [curve["steps"][-1] / curve["time/total"][-1] for curve in curves]
    steps = f"{np.mean(reached):,.0f}" if np.isfinite(reached).all() else "not by all"
    final = f"{np.mean(finals):.0f} ({min(finals):.0f} to {max(finals):.0f})"
    speed = f"{np.median(speeds):,.0f} ({min(speeds):,.0f} to {max(speeds):,.0f})"
    return f"| {engine} | {final} | {steps} | {speed} |"


def _steps_to(curve: dict[str, Any], goal: float) -> float:
    there = np.flatnonzero(curve["return/mean"] >= goal)
    return float(curve["steps"][there[0]]) if len(there) else float("inf")


def _plot(curves: dict[str, list[dict[str, Any]]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (by_steps, by_time) = pyplot.subplots(1, 2, figsize=(11, 4), sharey=True)
    for colour, (engine, runs) in zip(("tab:blue", "tab:orange"), curves.items(), strict=True):
        for number, curve in enumerate(runs):
            label = engine if number == 0 else None
            by_steps.plot(curve["steps"], curve["return/mean"], color=colour, alpha=0.7, label=label)
            by_time.plot(curve["time/total"], curve["return/mean"], color=colour, alpha=0.7, label=label)
    by_steps.set(xlabel="steps", ylabel="mean return of the last 100 episodes", title="by steps")
    by_time.set(xlabel="seconds", title="by time")
    by_steps.legend()
    figure.tight_layout()
    figure.savefig(PLOT, dpi=110)
