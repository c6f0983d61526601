"""Learning curves of several runs on common steps, and what they have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from muster.reports.figures import Figure, line, time_unit
from muster.reports.figures import band as shaded
from muster.reports.history import RunHistory
from muster.statistics import band, interquartile_mean

POINTS = 120
Column = NDArray[np.float64]


@dataclass(frozen=True)
class Curves:
    """Values of several runs at the same steps (or hours), as far as all of them came."""

    x: Column
    values: Column
    """A row for each run."""

    def middle(self) -> Column:
        """Return the interquartile mean at each point."""
        return interquartile_mean(self.values, axis=0)

    def summary(self) -> tuple[Column, Column, Column]:
        """Return interquartile mean, and the ends of its interval."""
        return band(self.values)


def curves_of(runs: Sequence[RunHistory], over: str = "steps", of: str = "return/mean") -> Curves | None:
    """Return the curves of a column over another, in its units; None if no run has one."""
    found = [curve for run in runs if (curve := _curve(run, over, of)) is not None]
    if not found:
        return None
    start, end = max(x[0] for x, _ in found), min(x[-1] for x, _ in found)
    if start > end:
        return None
    x = np.linspace(start, end, POINTS) if end > start else np.array([end])
    return Curves(x, np.stack([np.interp(x, xs, values) for xs, values in found]))


def _curve(run: RunHistory, over: str, of: str = "return/mean") -> tuple[Column, Column] | None:
    x, values = run.column(over), run.column(of)
    known = np.isfinite(x) & np.isfinite(values)
    return (x[known], values[known]) if known.any() else None


def group_figure(groups: Sequence[tuple[str, Sequence[RunHistory]]], over: str = "steps") -> Figure | None:
    """Draw the interquartile mean of each group with its interval; one run alone is a line."""
    traces = []
    label, seconds = "simulator steps", 1.0
    if over == "time/total":
        unit, seconds = time_unit(np.concatenate([run.column(over) for _, runs in groups for run in runs]))
        label = f"{unit} of training"
    for color, (name, runs) in enumerate(groups):
        curves = curves_of(runs, over)
        if curves is None:
            continue
        middle, low, high = curves.summary()
        x = curves.x / seconds
        legend = name if len(curves.values) == 1 else f"{name} ({len(curves.values)} runs)"
        drawn = [] if len(curves.values) == 1 else shaded(legend, x, low, high, color % 6)
        drawn.append(line(legend, x, middle, color % 6, legendgroup=legend))
        traces += drawn
    if not traces:
        return None
    over_time = " over training time" if over == "time/total" else ""
    title = f"Return{over_time}: interquartile mean, 95 % interval"
    return Figure(title, traces, label, "return of an episode", 400)


def single_figure(runs: Sequence[RunHistory], best: str | None = None) -> Figure | None:
    """Draw the curve of every run; one of them stands out, if it is named."""
    traces = []
    for run in runs:
        curve = _curve(run, "steps")
        if curve is None:
            continue
        step = max(1, len(curve[0]) // 300)
        is_best = run.folder.name == best
        style = {"color": "@0" if is_best else "@5/0.45", "width": 2.2 if is_best else 1}
        name = run.folder.name
        traces.append(line(name, curve[0][::step], curve[1][::step], 0, line=style, showlegend=is_best))
    return (
        Figure("Return of every run", traces, "simulator steps", "return of an episode", 360) if traces else None
    )
