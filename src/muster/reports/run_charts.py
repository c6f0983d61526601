"""The charts of one run: what it learned, how fast, where the time went, and what happened when."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.reports.figures import Figure, band, chosen, line, number, plain, points, time_unit, values
from muster.reports.history import Launch, RunHistory
from muster.runs.metrics import FIRST_COLUMNS, TIME_COLUMNS

BUCKETS = 150
LONGEST_DETAIL = 200
_STEPS = "simulator steps"
_SMALL = 220
MOST_IN_SMALL = 400
"""Points of a small chart."""
_ROWS: dict[str, Any] = {"yaxis": {"type": "category", "title": {"text": ""}}, "hovermode": "closest"}
"""The layout of a chart with a row for each kind of thing."""


def learning_curve(history: RunHistory) -> Figure | None:
    """Draw returns in training and evaluation, the best checkpoint and every resumption."""
    rows = history.record.rows
    if not len(rows):
        return None
    at = chosen(len(rows))
    unit, seconds = time_unit(history.column("time/total"))
    steps, times = history.column("steps")[at], history.column("time/total")[at] / seconds
    low, mean, high = (history.column(f"return/{name}")[at] for name in ("min", "mean", "max"))
    name = "training, last 100 episodes"
    traces = [
        *band(name, steps, low, high, 0),
        line(name, steps, mean, 0, legendgroup=name),
    ]
    xs = [[values(steps), values(times)] for _ in traces]
    for trace in _evaluations(history):
        traces.append(trace)
        xs.append([trace["x"], _times_at(history, trace["x"], seconds)])
    resumed = [_steps_at(history, event.get("iteration")) for event in history.events if _is_resumption(event)]
    figure = Figure("Return", traces, _STEPS, "return of an episode", 380)
    figure.axes = {_STEPS: [x[0] for x in xs], f"{unit} of training": [x[1] for x in xs]}
    figure.layout["shapes"] = [_rule(x) for x in resumed if x is not None]
    return figure


def throughput(history: RunHistory) -> Figure | None:
    """Draw steps a second over the run."""
    found = _buckets(history)
    if found is None:
        return None
    x, seconds, steps = found["steps"], found["seconds"], found["new steps"]
    return Figure("Throughput", [line("", x, steps / seconds, 0)], _STEPS, "steps per second", _SMALL + 40)


def time_shares(history: RunHistory) -> Figure | None:
    """Draw which part of the time went into sampling, learning and waiting."""
    found = _buckets(history)
    if found is None:
        return None
    total = found["seconds"]
    waiting = np.minimum(found["wait"], found["sample"])
    parts = {
        "sampling": found["sample"] - waiting,
        "waiting for the slowest worker": waiting,
        "learning": found["learn"],
    }
    parts["rest"] = np.maximum(0, total - sum(parts.values()))
    traces = [
        line(
            name,
            found["steps"],
            100 * part / total,
            color,
            stackgroup="time",
            fillcolor=f"@{color}/0.45",
            line={"color": f"@{color}", "width": 0.8},
            hovertemplate="%{y:.1f} %",
        )
        for color, (name, part) in enumerate(parts.items())
        if np.nansum(part) > 0
    ]
    layout = {"yaxis": {"range": [0, 100], "title": {"text": "share of an iteration (%)"}}}
    return Figure("Where the time goes", traces, _STEPS, height=_SMALL + 60, layout=layout)


def other_metrics(history: RunHistory) -> list[Figure]:
    """Draw every further column by itself, since their units differ."""
    rows = history.record.rows
    if not len(rows):
        return []
    at = chosen(len(rows), MOST_IN_SMALL)
    steps = history.column("steps")[at]
    figures = []
    for column in rows.columns:
        if column in (*FIRST_COLUMNS, *TIME_COLUMNS):
            continue
        found = history.column(column)[at]
        if np.isfinite(found).any():
            layout = {"yaxis": {"exponentformat": "e", "title": {"text": ""}, **_range_of_constant(found)}}
            figures.append(Figure(column, [line("", steps, found, 0)], _STEPS, height=_SMALL, layout=layout))
    return figures


def _range_of_constant(values: NDArray[np.float64]) -> dict[str, Any]:
    """Return a range around a value that never changes; in Plotly's own, a small one looks like zero."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    ends = [low * 0.9, low * 1.1]
    return {"range": sorted(ends)} if low == high != 0 and np.isfinite(ends).all() else {}


def timeline(history: RunHistory) -> Figure | None:
    """Draw what happened when, a row for each kind of event."""
    kinds: dict[str, list[tuple[str, str]]] = {}
    launched = [event for launch in history.launches for event in launch.events]
    for event in [*history.events, *(event for event in launched if event.get("event") in _ON_THE_WAY)]:
        if (moment := _moment(event.get("time"))) is not None:
            kinds.setdefault(_kind(event), []).append((moment, plain(details(event))))
    if not kinds:
        return None
    order = sorted(kinds, key=lambda kind: min(kinds[kind]), reverse=True)
    traces = [
        points(
            kind,
            [moment for moment, _ in kinds[kind]],
            [plain(kind)] * len(kinds[kind]),
            1 if kind in _BAD else 0,
            text=[text for _, text in kinds[kind]],
            hovertemplate="%{x}<br>%{text}<extra></extra>",
            showlegend=False,
        )
        for kind in order
    ]
    layout = {**_ROWS, "xaxis": {"type": "date"}}
    return Figure("Events (UTC)", traces, height=110 + 30 * len(order), layout=layout)


def bring_up(launch: Launch) -> Figure:
    """Draw when each host did what while Ray came up, in seconds since the first."""
    began = float(launch.events[0]["time"])
    hosts: dict[str, list[dict[str, Any]]] = {}
    for event in launch.events:
        hosts.setdefault(str(event.get("host", "?")), []).append(event)
    traces = [
        points(
            host,
            [float(event["time"]) - began for event in events],
            [plain(host)] * len(events),
            0,
            text=[plain(details(event)) for event in events],
            hovertemplate="%{x:.2f} s<br>%{text}<extra></extra>",
            showlegend=False,
        )
        for host, events in sorted(hosts.items(), reverse=True)
    ]
    return Figure(
        f"Bring-up {launch.name}",
        traces,
        "seconds since the first rank",
        height=110 + 30 * len(hosts),
        layout=dict(_ROWS),
    )


_BAD = ("simulator failed", "worker lost", "host lost", "ray lost", "head lost", "failed", "iteration abandoned")
_ON_THE_WAY = (
    "host lost",
    "host back",
    "ray lost",
    "head lost",
    "signal forwarded",
    "command killed",
    "continuing without",
)
"""Events of a launch that belong to the run's timeline, unlike those of its beginning."""


def _kind(event: dict[str, Any]) -> str:
    kind = str(event.get("event", "unknown"))
    if kind == "started" and _is_resumption(event):
        return "resumed"
    return "saved as the best" if kind == "saved" and event.get("best") is True else kind


def _is_resumption(event: dict[str, Any]) -> bool:
    return event.get("event") == "started" and isinstance(event.get("iteration"), int) and event["iteration"] > 0


def details(event: dict[str, Any]) -> str:
    """Return an event and what it says of itself, in a line."""
    rest = ", ".join(f"{key} {value}" for key, value in event.items() if key not in ("time", "event", "host"))
    text = f"{event.get('event')}{': ' + rest if rest else ''}"
    return text if len(text) <= LONGEST_DETAIL else f"{text[:LONGEST_DETAIL]}..."


def _moment(time: object) -> str | None:
    if not isinstance(time, int | float):
        return None
    try:
        return datetime.fromtimestamp(time, UTC).isoformat(sep=" ", timespec="milliseconds")[:-6]
    except (OverflowError, ValueError, OSError):
        return None


def _evaluations(history: RunHistory) -> list[dict[str, Any]]:
    found = [
        (line["steps"], line["return_mean"], line.get("return_std"), line.get("episodes"), line.get("iteration"))
        for line in history.evaluations
        if _is_number(line.get("steps")) and _is_number(line.get("return_mean"))
    ]
    traces = []
    if found:
        spread = [number(float(std)) if isinstance(std, int | float) else None for _, _, std, _, _ in found]
        traces.append(
            points(
                "evaluation ± standard deviation of episodes",
                [one[0] for one in found],
                [one[1] for one in found],
                1,
                error_y={"type": "data", "array": spread, "color": "@1/0.5", "thickness": 1, "width": 0},
            )
        )
    best = history.record.best
    if best is not None:
        evaluated = [one for one in found if one[4] == int(best)]
        steps = _steps_at(history, int(best))
        y = evaluated[0][1] if evaluated else _return_at(history, int(best))
        if steps is not None and y is not None:
            mark = {"symbol": "star", "size": 15, "color": "@2"}
            traces.append(points(f"best checkpoint ({int(best)})", [steps], [y], 2, marker=mark))
    return traces


def _row_of(history: RunHistory, iteration: object) -> int | None:
    if not isinstance(iteration, int) or isinstance(iteration, bool):
        return None
    found = np.flatnonzero(history.column("iteration") == iteration)
    return int(found[0]) if len(found) else None


def _steps_at(history: RunHistory, iteration: object) -> float | None:
    row = _row_of(history, iteration)
    return None if row is None else float(history.column("steps")[row])


def _return_at(history: RunHistory, iteration: int) -> float | None:
    row = _row_of(history, iteration)
    return None if row is None else number(history.column("return/mean")[row])


def _times_at(history: RunHistory, steps: list[float | None], seconds: float) -> list[float | None]:
    known, times = history.column("steps"), history.column("time/total") / seconds
    return values(np.interp([np.nan if one is None else one for one in steps], known, times))


def _buckets(history: RunHistory) -> dict[str, NDArray[np.float64]] | None:
    """Return steps and seconds of the whole, and of its parts, summed over spans of iterations."""
    rows = history.record.rows
    count = len(rows)
    if not count:
        return None
    edges = np.unique(np.linspace(0, count, min(count, BUCKETS) + 1).astype(int))
    steps, total = history.column("steps"), history.column("time/total")
    ends = edges[1:] - 1
    found = {
        "steps": steps[ends],
        "new steps": np.diff(steps[ends], prepend=0.0),
        "seconds": np.diff(total[ends], prepend=0.0),
    }
    for part in ("sample", "learn", "wait"):
        found[part] = np.add.reduceat(np.nan_to_num(history.column(f"time/{part}")), edges[:-1])
    known = np.isfinite(found["seconds"]) & (found["seconds"] > 0)
    return {name: column[known] for name, column in found.items()} if known.any() else None


def _rule(x: float) -> dict[str, Any]:
    mark = {"color": "@muted", "width": 1, "dash": "dot"}
    return {"type": "line", "xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1, "line": mark}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
