"""Charts as data for Plotly: few marks, colours by number, which the page gives in its light or dark theme."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_POINTS = 1500
_DIGITS = 6
Numbers = Sequence[float] | NDArray[Any]


@dataclass
class Figure:
    """One chart: its traces and layout; `axes` are other x-axes that a reader may choose, by their labels."""

    title: str
    traces: list[dict[str, Any]]
    x: str = ""
    y: str = ""
    height: int = 320
    layout: dict[str, Any] = field(default_factory=dict)
    axes: dict[str, list[list[float | None]]] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """Return what the page's script draws."""
        layout = {
            "xaxis": {"title": {"text": plain(self.x)}},
            "yaxis": {"title": {"text": plain(self.y)}},
            **self.layout,
        }
        return {
            "title": self.title,
            "traces": self.traces,
            "layout": layout,
            "height": self.height,
            "axes": self.axes,
        }


def line(name: str, x: Numbers, y: Numbers, color: int, **extra: Any) -> dict[str, Any]:
    """Return a thin line; a line without a name is not in the legend."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plain(name),
        "x": values(x),
        "y": values(y),
        "line": {"color": f"@{color}", "width": 1.8},
        "showlegend": bool(name),
        **extra,
    }


def band(name: str, x: Numbers, low: Numbers, high: Numbers, color: int) -> list[dict[str, Any]]:
    """Return the area between two lines, as two traces that are shown and hidden with the line of that name."""
    invisible = {"line": {"width": 0, "color": f"@{color}"}, "hoverinfo": "skip", "legendgroup": plain(name)}
    lower = line("", x, low, color, **invisible)
    upper = line("", x, high, color, **invisible, fill="tonexty", fillcolor=f"@{color}/0.16")
    return [lower, upper]


def points(name: str, x: Iterable[Any], y: Iterable[Any], color: int, **extra: Any) -> dict[str, Any]:
    """Return marks without a line."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(name),
        "x": [value if isinstance(value, str) else number(value) for value in x],
        "y": [value if isinstance(value, str) else number(value) for value in y],
        "marker": {"color": f"@{color}", "size": 8},
        **extra,
    }


def plain(text: object) -> str:
    """Return a text that Plotly shows as it is: it reads a subset of HTML in labels."""
    return html.escape(str(text), quote=False)


def number(value: float) -> float | None:
    """Return a number for JSON, to the digits that a chart can show; None where there is none."""
    value = float(value)
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None


def values(numbers: Numbers) -> list[float | None]:
    """Return numbers for JSON."""
    return [number(value) for value in numbers]


def time_unit(seconds: Numbers) -> tuple[str, float]:
    """Return the unit in which a chart shows times up to the largest of these, and its seconds."""
    longest = max((float(value) for value in seconds if math.isfinite(value)), default=0.0)
    if longest < 3 * 60:
        return "seconds", 1.0
    return ("minutes", 60.0) if longest < 3 * 3600 else ("hours", 3600.0)


def chosen(count: int, most: int = MOST_POINTS) -> NDArray[np.int64]:
    """Return which of many rows a chart shows: the first, the last, and evenly spread ones."""
    return np.unique(np.linspace(0, max(0, count - 1), min(count, most)).astype(np.int64))
