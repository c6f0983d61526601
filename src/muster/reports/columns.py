"""Which columns of runs can be drawn, and their lines."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from muster.errors import InputError
from muster.reports.curves import curves_of
from muster.reports.history import RunHistory

Line = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Steps, and a column's values there."""


def lines_of(runs: Sequence[RunHistory], wanted: Sequence[str]) -> dict[str, Line]:
    """Return the line of each column: of several runs, that of their interquartile mean.

    Raises:
        InputError: naming those that are probably meant.
    """
    named_by = next((run for run in runs if run.record.rows.columns), runs[0])
    return {column: _line(runs, column) for column in (_found(name, named_by) for name in wanted)}


def _line(runs: Sequence[RunHistory], column: str) -> Line:
    if len(runs) == 1:
        return runs[0].column("steps"), runs[0].column(column)
    curves = curves_of(runs, of=column)
    return (np.empty(0), np.empty(0)) if curves is None else (curves.x, curves.middle())


def _found(name: str, history: RunHistory) -> str:
    """Return the column of a name, or the only one whose name ends so: `energy` of `metrics/energy`."""
    known = history.record.rows.columns
    if not known:
        reasons = "; ".join(history.problems) or "no iteration is recorded yet"
        raise InputError(f"{history.folder.path}: nothing to draw: {reasons}")
    ends = [column for column in known if column.endswith(f"/{name}")]
    if name in known or len(ends) == 1:
        return name if name in known else ends[0]
    near = ends or difflib.get_close_matches(name, known, n=3, cutoff=0.4) or known
    raise InputError(f"no column {name!r} in {history.folder.metrics}\n    there are: {', '.join(near)}")
