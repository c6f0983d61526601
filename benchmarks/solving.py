"""How long, and how many steps, until a task is solved: ours and other frameworks'."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.contests import (
    OURS,
    OURS_OVERLAP,
    OURS_SMALL,
    OURS_SMALL_TRPO,
    OURS_TRPO,
    PEERS,
    SB3,
    SB3_TRPO,
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
        (OURS, OURS_SMALL, OURS_OVERLAP, *PEERS),
        iterations=1000,
        goal=475.0,
        seconds=30.0,
    ),
    Contest(
        "TRPO on CartPole-v1 until the mean return is 475",
        "cartpole",
        (OURS_TRPO, OURS_SMALL_TRPO, SB3_TRPO),
        iterations=1000,
        goal=475.0,
        seconds=30.0,
    ),
    Contest(
        "ratio until the mean return is -0.005",
        "ratio",
        (OURS, OURS_SMALL, OURS_OVERLAP, SB3, SINGLE),
        iterations=1000,
        goal=-0.005,
        seconds=30.0,
    ),
)


def run() -> str:
    """Hold all contests; write their figures and a picture beside the page."""
    lines = [
        "# Solving",
        "",
        "Seconds from the command, start-up included, until the mean return of the last 100 episodes is what the "
        f"title says, and the steps that took. {WORK} {machine()}",
    ]
    tables, figures = hold_all(CONTESTS, JSON_FILE)
    _plot(figures)
    return "\n".join([*lines, *tables, "", f"![curves]({PLOT.name})", ""])


def _plot(figures: dict[str, Any]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    colours = pyplot.get_cmap("tab20")
    figure, axes = pyplot.subplots(len(CONTESTS), 2, figsize=(12, 4.5 * len(CONTESTS)), sharey="row")
    for contest, (by_steps, by_time) in zip(CONTESTS, axes, strict=True):
        for k, (title, curves) in enumerate(figures[contest.title]["curves"].items()):
            look = {"color": colours(k), "linewidth": 2.5 if title.startswith("muster") else 1.0}
            for number, curve in enumerate(curves):
                seconds, steps, means = zip(*(point for point in curve if point[2] is not None), strict=True)
                by_steps.plot(steps, means, label=title if number == 0 else None, **look)
                by_time.plot(seconds, means, **look)
        by_steps.set(xlabel="steps", ylabel="mean return of the last 100 episodes", title=contest.title)
        by_time.set(xlabel="seconds since the command", title="start-up included")
        by_steps.legend(fontsize=7)
        if contest.goal is not None and contest.goal < 0:
            by_steps.set_yscale("symlog", linthresh=-contest.goal)
    figure.tight_layout()
    figure.savefig(PLOT, dpi=110)
