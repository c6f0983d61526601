"""A line drawn in a terminal with Braille characters: two by four dots in each cell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from muster.reports.run_report import figure

_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
_BLANK = 0x2800
LEAST_WIDTH = 20


def plot_lines(x: NDArray[np.float64], y: NDArray[np.float64], width: int, height: int) -> list[str]:
    """Return the lines of a chart with its scale at the left and below; cells without a number are left out."""
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if not len(x):
        return ["no values"]
    labels = [figure(float(value)) for value in (y.max(), y.max() / 2 + y.min() / 2, y.min())]
    margin = max(map(len, labels))
    cells = _cells(x, y, max(LEAST_WIDTH, width - margin - 2), height)
    rows = {0: labels[0], height // 2: labels[1], height - 1: labels[2]}
    lines = [
        f"{rows.get(at, ''):>{margin}} ┤{''.join(chr(_BLANK + cell) for cell in row)}".rstrip(chr(_BLANK))
        for at, row in enumerate(cells)
    ]
    first, last = f"{x[0]:,.0f}", f"{x[-1]:,.0f}"
    gap = " " * max(1, cells.shape[1] - len(first) - len(last))
    return [*lines, f"{'':>{margin}}  {first}{gap}{last}"]


def _cells(x: NDArray[np.float64], y: NDArray[np.float64], width: int, height: int) -> NDArray[np.int64]:
    """Return for each character which of its dots are set."""
    columns = np.linspace(x[0], x[-1], 2 * width) if x[-1] > x[0] else np.array([x[0]])
    # By parts, so that the span of the largest numbers is still one.
    y = y / (np.abs(y).max() or 1.0)
    values = np.interp(columns, x, y)
    low, high = y.min(), y.max()
    rows = 4 * height - 1
    dots = np.round((high - values) / ((high - low) or 1.0) * rows).astype(int)
    cells = np.zeros((height, width), np.int64)
    before = dots[0]
    for at, dot in enumerate(dots):
        # A step between two columns is filled, so that the line has no gaps.
        for row in range(min(before, dot), max(before, dot) + 1):
            cells[row // 4, at // 2] |= _DOTS[row % 4, at % 2]
        before = dot
    return cells
