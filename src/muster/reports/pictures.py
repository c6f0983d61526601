"""Pictures of runs as PNG, PDF or SVG: columns of one run or group, or groups beside each other."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from muster.reports.columns import Line
from muster.reports.comparison import Comparison
from muster.runs.files import explained, write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#0065a8", "#c44e00", "#00795a", "#9c3f86", "#7a5c00", "#4b5563")
LINES = ("-", "--", ":")
DOTS_PER_INCH = 130


def save(figure: Figure, path: Path) -> None:
    """Write a picture as a whole, in the format that the file's name says.

    Raises:
        StorageError: if it cannot be written.
    """
    content = io.BytesIO()
    figure.savefig(content, format=path.suffix[1:].lower(), dpi=DOTS_PER_INCH)
    with explained(path, afterwards=""):
        write_bytes(path, content.getvalue())


def draw_comparison(comparison: Comparison) -> Figure:
    """Draw curves with their intervals, and the final returns."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2))
    curves, finals = figure.subplots(1, 2, width_ratios=(2, 1))
    for at, entry in enumerate(comparison.entries):
        color, style = COLORS[at % len(COLORS)], LINES[at // len(COLORS)]
        label = f"{_text(entry.name)} ({len(entry.group.runs)})"
        if entry.by_steps is not None:
            middle, low, high = entry.by_steps.summary()
            curves.plot(entry.by_steps.x, middle, style, color=color, linewidth=1.6, label=label)
            if len(entry.by_steps.values) > 1:
                curves.fill_between(entry.by_steps.x, low, high, color=color, alpha=0.16, linewidth=0)
        if entry.final is not None:
            ends = [[entry.final.value - entry.final.low], [entry.final.high - entry.final.value]]
            finals.errorbar([entry.final.value], [-at], xerr=ends, fmt="o", color=color, capsize=4)
    curves.set(xlabel="simulator steps", ylabel="return of an episode", title="interquartile mean, 95 % interval")
    curves.legend(fontsize="small", frameon=False)
    names = [_text(entry.name) for entry in comparison.entries]
    finals.set_yticks([-at for at in range(len(names))], names)
    finals.set(xlabel="final return", ylim=(0.5 - len(names), 0.5))
    for axes in (curves, finals):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    return figure


def draw_columns(title: str, lines: Mapping[str, Line]) -> Figure:
    """Draw columns over the steps, each in a chart of its own."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 0.6 + 2.6 * len(lines)))
    charts = figure.subplots(len(lines), 1, squeeze=False, sharex=True)
    for chart, (column, (steps, values)) in zip(charts[:, 0], lines.items(), strict=True):
        known = np.isfinite(values)
        chart.plot(steps[known], values[known], color=COLORS[0], linewidth=1.4)
        chart.set_ylabel(_text(column))
        chart.grid(alpha=0.25)
        chart.spines[["top", "right"]].set_visible(False)
    charts[0, 0].set_title(_text(title))
    charts[-1, 0].set_xlabel("simulator steps")
    figure.tight_layout()
    return figure


def _text(text: str) -> str:
    """Return a text that matplotlib does not take for a formula."""
    return text.replace("$", r"\$")
