"""Steps a second with learning, ours and other frameworks'."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from benchmarks.contests import (
    FACTORY,
    OURS,
    OURS_OVERLAP,
    OURS_OVERLAP_TRPO,
    OURS_SMALL,
    OURS_SMALL_TRPO,
    OURS_TRPO,
    OURS_WORKERS,
    OURS_WORKERS_OVERLAP,
    PEERS,
    PUFFER_WORKERS,
    RLLIB,
    SB3_TRPO,
    SB3_TRPO_WIDE,
    SB3_WIDE,
    SB3_WORKERS,
    SINGLE_WIDE,
    WORK,
    Contest,
    hold_all,
    machine,
)

RESULTS = Path(__file__).parent / "results"
JSON_FILE, PLOT = RESULTS / "throughput.json", RESULTS / "throughput.png"

OUR_WAYS = (OURS, OURS_SMALL, OURS_OVERLAP)
TRPO = (OURS_TRPO, OURS_SMALL_TRPO, OURS_OVERLAP_TRPO, SB3_TRPO, SB3_TRPO_WIDE)
CONTESTS = (
    Contest("CartPole-v1", "cartpole", (*OUR_WAYS, *PEERS)),
    Contest("ratio, episodes of 4 steps", "ratio", (*OUR_WAYS, *PEERS)),
    Contest(
        "CartPole with 1 ms of computing a step",
        "burn",
        (OURS_WORKERS, OURS_WORKERS_OVERLAP, SB3_WORKERS, PUFFER_WORKERS, FACTORY, RLLIB),
        iterations=5,
        has_limit=True,
    ),
    Contest(
        "heavy-tailed: 0.5 ms a step, 50 ms in one of a hundred",
        "heavy",
        (OURS_WORKERS, OURS_WORKERS_OVERLAP, FACTORY),
        iterations=5,
        has_limit=True,
    ),
    Contest("Pendulum-v1", "pendulum", (*OUR_WAYS, SB3_WIDE, SINGLE_WIDE)),
    Contest("100 observations, nets of 256-256", "wide", (*OUR_WAYS, *PEERS)),
    Contest("TRPO on CartPole-v1", "cartpole", TRPO),
    Contest("TRPO on ratio", "ratio", TRPO),
)


def run(part: str = "") -> str:
    """Hold all contests, or those with a part in their title; write figures and a picture beside the page."""
    tables, figures = hold_all(CONTESTS, JSON_FILE, part)
    _plot(figures)
    what = "Simulator steps a second, learning included, the first iteration of a run left out."
    lines = ["# Throughput", "", f"{what} {WORK} {machine(figures)}"]
    return "\n".join([*lines, *tables, "", f"![steps a second]({PLOT.name})", ""])


def _plot(figures: dict[str, Any]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    titles = [contest.title for contest in CONTESTS]
    figure, axes = pyplot.subplots(-(-len(titles) // 2), 2, figsize=(13, 2.6 * len(titles) / 2 + 2))
    for axis, title in zip(axes.flat, titles, strict=False):
        speeds = figures[title]["speeds"]
        names = list(speeds)[::-1]
        colours = ["tab:orange" if name.startswith("muster") else "tab:blue" for name in names]
        axis.barh(names, [statistics.median(speeds[name]) for name in names], color=colours)
        axis.set_title(title, fontsize=10)
        axis.tick_params(labelsize=8)
    for axis in axes.flat[len(titles) :]:
        axis.set_visible(False)
    figure.supxlabel("simulator steps a second, learning included")
    figure.tight_layout()
    figure.savefig(PLOT, dpi=110)
