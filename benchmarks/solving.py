"""How long, and how many steps, until a task is solved: ours and other frameworks'."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.contests import (
    EVALUATION,
    MEAN,
    OURS,
    OURS_OVERLAP,
    OURS_OVERLAP_TRPO,
    OURS_SMALL,
    OURS_SMALL_TRPO,
    OURS_TRPO,
    PEERS,
    SB3,
    SB3_TRPO,
    SB3_TRPO_WIDE,
    SINGLE,
    WORK,
    Contest,
    hold_all,
    machine,
)

RESULTS = Path(__file__).parent / "results"
JSON_FILE, PLOT = RESULTS / "solving.json", RESULTS / "solving.png"

CONTESTS = (
    Contest(
        "CartPole-v1 until the mean return is 475",
        "cartpole",
        (OURS_SMALL, OURS, OURS_OVERLAP, *PEERS),
        iterations=1000,
        goal=475.0,
        seconds=30.0,
        is_evaluated=True,
        rounds=5,
    ),
    Contest(
        "TRPO on CartPole-v1 until the mean return is 475",
        "cartpole",
        (OURS_SMALL_TRPO, OURS_TRPO, OURS_OVERLAP_TRPO, SB3_TRPO, SB3_TRPO_WIDE),
        iterations=1000,
        goal=475.0,
        seconds=30.0,
        is_evaluated=True,
        rounds=5,
    ),
    Contest(
        "ratio until the mean return is -0.005",
        "ratio",
        (OURS_SMALL, OURS, OURS_OVERLAP, SB3, SINGLE),
        iterations=1000,
        goal=-0.005,
        seconds=30.0,
        rounds=5,
    ),
)


def run(part: str = "") -> str:
    """Hold all contests, or those with a part in their title; write figures and a picture beside the page."""
    tables, figures = hold_all(CONTESTS, JSON_FILE, part)
    _plot(figures)
    what = (
        "Seconds from the command, start-up included, until the mean return of the last 100 episodes is what the "
        "title says, and the steps that took; and the same until the policy, deterministic, reaches that in 20 "
        "episodes, which were played after training."
    )
    lines = ["# Solving", "", f"{what} {WORK} {machine(figures)}"]
    return "\n".join([*lines, *tables, "", f"![curves]({PLOT.name})", ""])


def _plot(figures: dict[str, Any]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    colours = pyplot.get_cmap("tab20")
    figure, axes = pyplot.subplots(len(CONTESTS), 2, figsize=(12, 4.5 * len(CONTESTS)), sharey="row")
    for contest, (by_steps, by_time) in zip(CONTESTS, axes, strict=True):
        judge = EVALUATION if contest.is_evaluated else MEAN
        for k, (title, curves) in enumerate(figures[contest.title]["curves"].items()):
            look = {"color": colours(k), "linewidth": 2.5 if title.startswith("muster") else 1.0}
            for number, curve in enumerate(curves):
                label = title if number == 0 else None
                for axis, x, y in ((by_steps, 1, MEAN), (by_time, 0, judge)):
                    points = [(entry[x], entry[y]) for entry in curve if entry[y] is not None]
                    axis.plot(*zip(*points, strict=True), label=label, **look)
        by_steps.set(xlabel="steps", ylabel="return", title=f"{contest.title}: the last 100 episodes")
        what = "its policy, deterministic" if contest.is_evaluated else "the last 100 episodes"
        by_time.set(xlabel="seconds since the command, start-up included", title=what)
        by_steps.legend(fontsize=7)
        if contest.goal is not None and contest.goal < 0:
            by_steps.set_yscale("symlog", linthresh=-contest.goal)
    figure.tight_layout()
    figure.savefig(PLOT, dpi=110)
