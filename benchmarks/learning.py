"""What the built-in engine learns with its default settings: CartPole and the ratio environment, five seeds."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

MUSTER = Path(sys.executable).with_name("muster")
RATIO = Path(__file__).parents[1] / "examples" / "ratio" / "ratio.toml"
SEEDS = range(5)
EPISODES = 100

# (title, arguments of `muster train`, return to reach)
CASES = [
    ("CartPole-v1, PPO, 100,000 steps", ["CartPole-v1", "--algorithm", "PPO", "--stop-steps", "100000"], 475.0),
    ("CartPole-v1, TRPO, 100,000 steps", ["CartPole-v1", "--algorithm", "TRPO", "--stop-steps", "100000"], 475.0),
    ("ratio, PPO, its own file", [str(RATIO)], -1e-4),
]


def run() -> str:
    """Train and evaluate every case with every seed, as a user would."""
    lines = [
        "# Learning with default settings",
        "",
        "`muster train ... --seed S`, then `muster evaluate`: best checkpoint, deterministic, "
        f"{EPISODES} episodes.",
        "",
        "| experiment | goal | " + " | ".join(f"seed {seed}" for seed in SEEDS) + " | reached |",
        "|---|---|" + "---|" * len(SEEDS) + "---|",
    ]
    for title, arguments, goal in CASES:
        returns = [_train_and_evaluate(arguments, seed) for seed in SEEDS]
        reached = sum(value >= goal for value in returns)
        cells = " | ".join(f"{value:.4g}" for value in returns)
        lines.append(f"| {title} | {goal:g} | {cells} | {reached} of {len(returns)} |")
    return "\n".join(lines) + "\n"


def _train_and_evaluate(arguments: list[str], seed: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        common = ["--runs-dir", folder, "--json"]
        _muster("train", *arguments, "--seed", str(seed), "--name", "run", *common)
        result = _muster("evaluate", "run", "--episodes", str(EPISODES), *common)
    return float(result["return_mean"])


def _muster(*arguments: str) -> dict[str, Any]:
    done = subprocess.run([str(MUSTER), *arguments], capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result
