"""The list of runs as HTML: every text of a run folder is escaped here."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from datetime import UTC, datetime

from muster.experiment.quantities import format_duration
from muster.reports.run_report import figure
from muster.runs.reading import printable
from muster.runs.status import STATES
from muster.runs.summary import short_simulator
from muster.serving.run_rows import RunRow

SPARK_WIDTH, SPARK_HEIGHT = 110, 22
_HEADINGS = {
    "run": "",
    "state": "",
    "curve": "",
    "mean return": "n",
    "steps": "n",
    "simulator": "",
    "algorithm": "",
    "time": "n",
    "node-hours": "n",
    "updated": "n",
}
"""Each with the class of its cells."""


def table_html(rows: Sequence[str]) -> str:
    """Return the whole table, with the fields that choose among its rows."""
    head = "".join(f'<th class="{kind}">{name}</th>' for name, kind in _HEADINGS.items())
    states = "".join(f'<option value="{state}">{state}</option>' for state in STATES)
    return (
        '<p class="choice"><input id="name" type="search" placeholder="part of a name" aria-label="name"> '
        f'<select id="state" aria-label="state"><option value="">all states</option>{states}</select> '
        '<span id="count" class="note"></span></p>'
        f'<div class="wide"><table id="runs"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def row_html(row: RunRow, path: str) -> str:
    """Return a run's row; `path` is its name in an address."""
    status, summary, name = row.status, row.summary, printable(row.name)
    cells = (
        ("name", f'<a href="/runs/{path}">{html.escape(name)}</a>{_problems(row.problems)}'),
        ("", state_html(row.state)),
        ("spark", sparkline(row.returns)),
        ("n", figure(status.return_mean)),
        ("n", f"{status.steps:,}"),
        ("", html.escape(printable(short_simulator(summary.simulator))) if summary.simulator else "-"),
        ("", html.escape(printable(summary.algorithm or "-"))),
        ("n", "-" if summary.seconds is None else format_duration(summary.seconds)),
        ("n", _hours(row.node_hours)),
        ("n", moment_html(status.updated)),
    )
    inner = "".join(f'<td class="{kind}">{cell}</td>' if kind else f"<td>{cell}</td>" for kind, cell in cells)
    return (
        f'<tr data-run="{html.escape(path)}" data-name="{html.escape(name)}" '
        f'data-state="{html.escape(row.state)}">{inner}</tr>'
    )


def state_html(state: str) -> str:
    """Return a state, coloured by what it means."""
    return f'<span class="state {html.escape(state)}">{html.escape(state)}</span>'


def moment_html(seconds: float) -> str:
    """Return a time, which the page's script shows as how long ago that was."""
    try:
        text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC") if seconds else "-"
    except (OverflowError, ValueError, OSError):
        text = "-"
    return text if text == "-" else f'<time data-at="{seconds:.0f}">{text}</time>'


def sparkline(values: Sequence[float]) -> str:
    """Return a small line of values."""
    known = [value for value in values if math.isfinite(value)]
    if len(known) < 2:
        return ""
    low, high = min(known), max(known)
    # By parts, so that the span of the largest numbers is still one.
    scale = max(abs(low), abs(high)) or 1.0
    span = high / scale - low / scale or 1.0
    points = " ".join(
        f"{1 + at * (SPARK_WIDTH - 2) / (len(known) - 1):.1f},"
        f"{1 + (SPARK_HEIGHT - 2) * (1 - (value / scale - low / scale) / span):.1f}"
        for at, value in enumerate(known)
    )
    return (
        f'<svg width="{SPARK_WIDTH}" height="{SPARK_HEIGHT}" viewBox="0 0 {SPARK_WIDTH} {SPARK_HEIGHT}" '
        f'preserveAspectRatio="none" role="img" aria-label="returns from {figure(low)} '
        f'to {figure(high)}"><polyline points="{points}"></polyline></svg>'
    )


def _hours(hours: float | None) -> str:
    if hours is None:
        return "-"
    return f"{hours:.2f}" if hours >= 0.01 or not hours else "&lt; 0.01"


def _problems(problems: Sequence[str]) -> str:
    if not problems:
        return ""
    return f'<div class="problems">missing or damaged: {html.escape("; ".join(problems))}</div>'
