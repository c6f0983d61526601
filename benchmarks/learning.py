"""What the built-in engine learns: the classic tasks beside published figures, and the ratio environment."""

from __future__ import annotations

import math
import os
import statistics
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.commands import muster

ROOT = Path(__file__).parents[1]
PAGE = Path(__file__).with_name("LEARNING.md")
RUNS = ROOT / ".bench" / "learning"
"""Kept, so that a benchmark that was broken off goes on where it was."""
SEEDS = range(5)
EPISODES = 100
T_OF_95_PERCENT = 2.776
"""Student's t for five seeds."""


@dataclass(frozen=True)
class Published:
    """A figure of RL Baselines3 Zoo: mean return, and the deviation over episodes if it is told."""

    mean: float
    deviation: float | None = None

    def __str__(self) -> str:
        return f"{self.mean:g}" if self.deviation is None else f"{self.mean:g} ± {self.deviation:g}"


ZOO = {
    "cartpole_ppo": Published(500, 0),
    "cartpole_trpo": Published(500, 0),
    "acrobot_ppo": Published(-73.5, 18),
    "acrobot_trpo": Published(-83.1, 19),
    "pendulum_ppo": Published(-172, 104),
    "pendulum_trpo": Published(-175, 128),
    "mountaincar_ppo": Published(-110, 19),
    "mountaincar_trpo": Published(-107, 13),
    "mountaincar_continuous_ppo": Published(88),
    "mountaincar_continuous_trpo": Published(92),
    "lunarlander_ppo": Published(242, 32),
    "lunarlander_trpo": Published(133, 112),
}
RATIO_GOAL = -1e-4


@dataclass(frozen=True)
class Outcome:
    """One seed's return with its best and its last checkpoint, and the deviation over the best one's episodes."""

    best: float
    latest: float
    deviation: float
    steps: int


def run() -> str:
    """Train and evaluate every file with every seed, as a user would."""
    files = [ROOT / "examples" / "classic" / f"{name}.toml" for name in ZOO]
    files.append(ROOT / "examples" / "ratio" / "ratio.toml")
    jobs = [(file, seed) for file in files for seed in SEEDS]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = dict(zip(jobs, pool.map(lambda job: _train_and_evaluate(*job), jobs), strict=True))
    tables = {file.stem: [outcomes[file, seed] for seed in SEEDS] for file in files}
    return "\n".join([*_classic(tables), *_seeds(tables), *_ratio(tables["ratio"])]) + "\n"


def _train_and_evaluate(file: Path, seed: int) -> Outcome:
    name = f"{file.stem}-{seed}"
    common = ("--runs-dir", str(RUNS), "--json")
    trained = muster(
        "train", str(file), "--seed", str(seed), "--name", name, "--workers", "0", "--resume", *common
    )
    best, latest = (
        muster("evaluate", name, "--checkpoint", which, "--episodes", str(EPISODES), *common)
        for which in ("best", "latest")
    )
    return Outcome(best["return_mean"], latest["return_mean"], best["return_std"], trained["steps"])


def _classic(tables: dict[str, list[Outcome]]) -> list[str]:
    lines = [
        "# Learning",
        "",
        f"`make bench ONLY=learning`: `muster train examples/classic/FILE --seed S` for the seeds "
        f"{', '.join(map(str, SEEDS))}, then `muster evaluate`: deterministic, {EPISODES} episodes a seed. The "
        "first figure is the mean over seeds of the best checkpoint (by evaluations during training) and its 95 % "
        "interval; in brackets the last checkpoint's. The deviation is that over episodes. Beside it, the figures "
        "of RL Baselines3 Zoo for the same steps: one trained agent each, mean and deviation over episodes.",
        "",
        "| file | steps | muster | over episodes | the Zoo | as good |",
        "|---|---|---|---|---|---|",
    ]
    for name, published in ZOO.items():
        outcomes = tables[name]
        best = [outcome.best for outcome in outcomes]
        mean, interval = statistics.mean(best), _interval(best)
        latest = statistics.mean(outcome.latest for outcome in outcomes)
        deviation = statistics.mean(outcome.deviation for outcome in outcomes)
        cells = [
            f"`{name}`",
            f"{outcomes[0].steps:,}",
            f"{mean:.1f} ± {interval:.1f} ({latest:.1f})",
            f"{deviation:.1f}",
            str(published),
            _verdict(mean, interval, published),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _interval(values: list[float]) -> float:
    return T_OF_95_PERCENT * statistics.stdev(values) / math.sqrt(len(values))


def _verdict(mean: float, interval: float, published: Published) -> str:
    if mean >= published.mean:
        return "yes"
    return "within the interval" if mean + interval >= published.mean else "no"


def _seeds(tables: dict[str, list[Outcome]]) -> list[str]:
    lines = ["", "Each seed's best checkpoint:", "", "| file | " + " | ".join(f"seed {s}" for s in SEEDS) + " |"]
    lines.append("|---|" + "---|" * len(SEEDS))
    for name in ZOO:
        lines.append(f"| `{name}` | " + " | ".join(f"{outcome.best:.1f}" for outcome in tables[name]) + " |")
    return lines


def _ratio(outcomes: list[Outcome]) -> list[str]:
    reached = sum(outcome.best >= RATIO_GOAL for outcome in outcomes)
    cells = " | ".join(f"{outcome.best:.2g}" for outcome in outcomes)
    return [
        "",
        f"The ratio environment (`examples/ratio/ratio.toml`), to reach {RATIO_GOAL:g}:",
        "",
        "| " + " | ".join(f"seed {seed}" for seed in SEEDS) + " | reached |",
        "|" + "---|" * len(SEEDS) + "---|",
        f"| {cells} | {reached} of {len(outcomes)} |",
    ]
