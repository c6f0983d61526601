"""What each detail of PPO's defaults brings: the same training with one of them changed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from benchmarks.learned import EPISODES, done_in_parallel, learn

RESULTS_FILE = Path(__file__).parent / "results" / "ablation.jsonl"
STEPS = 300_000
SEEDS = (400, 401, 402)
"""No table of results uses them."""
TASKS = ("Hopper-v5", "HalfCheetah-v5")
DEFAULTS = "the defaults"
VARIANTS: dict[str, tuple[str, ...]] = {
    DEFAULTS: (),
    "observations not scaled": ("normalize.observations=false",),
    "rewards not scaled": ("normalize.rewards=false",),
    "a constant learning rate": ('algorithm.lr_schedule="constant"',),
    "values clipped at 0.2": ("algorithm.vf_clip_param=0.2",),
    "gradients not clipped": ("algorithm.grad_clip=1e9",),
    "log std 0 at first": ("algorithm.log_std_init=0.0",),
    "relu": ('model.activation="relu"',),
    "minibatches of 256": ("algorithm.minibatch_size=256",),
    "64 simulators": ("resources.envs_per_group=8",),
    "time limits end episodes": ('env.wrappers=["benchmarks.ablation:TimeLimitsTerminate"]',),
}


class TimeLimitsTerminate(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Says of an episode that a time limit has cut that it is over, so that no value is bootstrapped."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, and turn a truncation into a termination."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated or truncated, False, info


Key = tuple[str, str, int]


def run(part: str = "") -> str:
    """Do the runs that are missing; `part` names a task or a variant."""
    found = results()
    keys = [(task, variant, seed) for seed in SEEDS for variant in VARIANTS for task in TASKS]
    for key, outcome in done_in_parallel(_learn, [key for key in keys if key not in found and part in f"{key}"]):
        line = dict(zip(("task", "variant", "seed"), key, strict=True)) | outcome
        with RESULTS_FILE.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{key}: {outcome['latest']:.1f}", file=sys.stderr, flush=True)
    return page(results())


def _learn(key: Key) -> dict[str, Any]:
    task, variant, seed = key
    flags = [flag for setting in VARIANTS[variant] for flag in ("--set", setting)]
    name = f"{task}-{variant}-{seed}".lower().replace(" ", "-")
    return learn(name, task, "PPO", STEPS, seed, *flags)


def results() -> dict[Key, dict[str, Any]]:
    """Return what has been measured."""
    if not RESULTS_FILE.exists():
        return {}
    lines = [json.loads(line) for line in RESULTS_FILE.read_text(encoding="utf-8").splitlines()]
    return {(line["task"], line["variant"], line["seed"]): line for line in lines}


def page(found: dict[Key, dict[str, Any]]) -> str:
    """Return the table of what has been measured so far."""
    lines = [
        "# What each detail brings",
        "",
        f"`make bench ONLY=ablation`: PPO's defaults, and the same with one thing changed, {STEPS:,} steps. Mean "
        "training return of the last 100 episodes, then the return of the last checkpoint, deterministic, over "
        f"{EPISODES} episodes: the mean over seeds, and that of each. Three seeds are "
        "few: a difference below a third means little.",
        "",
        f"| changed | {' | '.join(f'{task}, training | {task}, evaluated' for task in TASKS)} |",
        f"|---|{'---|---|' * len(TASKS)}",
    ]
    for variant in VARIANTS:
        cells = []
        for task in TASKS:
            runs = [found[task, variant, seed] for seed in SEEDS if (task, variant, seed) in found]
            cells += [_cell([one["curve"][-1][1] for one in runs]), _cell([one["latest"] for one in runs])]
        lines.append(f"| {variant} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(values: list[float]) -> str:
    each = ", ".join(f"{value:,.0f}" for value in values)
    return f"**{np.mean(values):,.0f}** ({each})" if values else ""
