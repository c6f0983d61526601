"""A comparison as an HTML page."""

from __future__ import annotations

import time
from typing import Any

from muster.experiment.quantities import counted
from muster.reports.comparison import Comparison, as_rows
from muster.reports.curves import group_figure
from muster.reports.figures import Figure, number, plain
from muster.reports.groups import measure
from muster.reports.page import Page
from muster.reports.run_report import figure, moment
from muster.reports.seeds_report import run_table
from muster.statistics import FEWEST_SEEDS, Interval


def comparison_page(comparison: Comparison) -> str:
    """Return the page."""
    entries = comparison.entries
    runs = sum(len(entry.group.runs) for entry in entries)
    title = " and ".join(entry.name for entry in entries) if len(entries) == 2 else f"{len(entries)} groups"
    page = Page(f"Comparison of {title}", f"{counted(runs, 'run')}. Written {moment(time.time())}.")
    if notes := comparison.notes():
        page.list(notes, "problems")
    page.heading("Final return")
    _final(page, comparison)
    page.heading("Learning")
    sides = [(entry.name, entry.group.runs) for entry in entries]
    page.chart(group_figure(sides))
    page.chart(group_figure(sides, "time/total"))
    page.heading("Efficiency")
    _efficiency(page, comparison)
    page.heading("What differs between the experiments")
    if rows := [(key, *values) for key, values in comparison.differences().items()]:
        page.table(("key", *(entry.name for entry in entries)), rows)
    else:
        page.text("Nothing but names and seeds, or an experiment cannot be read.", "note")
    page.heading("Runs")
    for entry in entries:
        page.text(f"{entry.name}:")
        run_table(page, entry.group.runs, by_evaluations=comparison.by_evaluations)
    return page.html()


def _final(page: Page, comparison: Comparison) -> None:
    entries = comparison.entries
    found = [(at, entry.name, entry.final) for at, entry in enumerate(entries) if entry.final is not None]
    page.chart(_intervals("Interquartile mean of final returns, 95 % interval", "final return", found))
    better = [(at, entry.name, comparison.improvement(entry)) for at, entry in enumerate(entries)]
    known = [(at, name, interval) for at, name, interval in better if interval is not None]
    title = f"Probability that a run is better than one of {entries[0].name}, 95 % interval"
    chart = _intervals(title, "probability", known)
    if chart is not None:
        rule = {"type": "line", "x0": 0.5, "x1": 0.5, "y0": 0, "y1": 1, "yref": "paper"}
        chart.layout["shapes"] = [{**rule, "line": {"color": "@muted", "width": 1, "dash": "dot"}}]
        chart.layout["xaxis"] = {"range": [-0.02, 1.02], "title": {"text": "probability"}}
        page.chart(chart)
    rows = [(row[0], row[1], *(figure(_float(cell)) for cell in row[2:8]), row[-1]) for row in as_rows(comparison)]
    headings = ("group", "runs", "final return", "low", "high", "better with probability", "low", "high", "so")
    page.table(headings, rows, range(1, 8))
    page.text(
        f"{measure(comparison.by_evaluations)} Intervals come from resampling runs; "
        f"below {FEWEST_SEEDS} runs they are too narrow to rely on.",
        "note",
    )


def _efficiency(page: Page, comparison: Comparison) -> None:
    target = comparison.target()
    if target is None:
        page.text("No run has a curve.", "note")
        return
    page.text(f"What it took until the interquartile mean of the training returns reached {figure(target)}:")
    rows = []
    for row in as_rows(comparison):
        steps, hours, node_hours = (_float(cell) for cell in row[9:12])
        took = "not reached" if steps is None else f"{steps:,.0f}"
        rows.append((row[0], took, *(("-" if value is None else f"{value:.4g}") for value in (hours, node_hours))))
    page.table(("group", "steps", "hours of training", "node-hours"), rows, (1, 2, 3))


def _intervals(title: str, x: str, found: list[tuple[int, str, Interval]]) -> Figure | None:
    """Draw a point with its interval for each group, one below the other, in the group's colour."""
    if not found:
        return None
    traces: list[dict[str, Any]] = []
    for at, name, interval in reversed(found):
        up, down = interval.high - interval.value, interval.value - interval.low
        error = {"type": "data", "symmetric": False, "array": [number(up)], "arrayminus": [number(down)]}
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [number(interval.value)],
                "y": [plain(name)],
                "marker": {"color": f"@{at % 6}", "size": 9},
                "error_x": {**error, "color": f"@{at % 6}", "thickness": 2, "width": 5},
                "showlegend": False,
                "hovertemplate": "%{x:.4g}<extra></extra>",
            }
        )
    layout = {"yaxis": {"type": "category", "title": {"text": ""}}, "hovermode": "closest"}
    return Figure(title, traces, x, height=100 + 34 * len(found), layout=layout)


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
