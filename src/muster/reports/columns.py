"""Which columns of a run's metrics can be drawn."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from muster.errors import InputError
from muster.reports.history import RunHistory


def require_columns(wanted: Sequence[str], history: RunHistory) -> None:
    """Check that a run has columns.

    Raises:
        InputError: naming those that are probably meant.
    """
    known = history.record.rows.columns
    if not known:
        reasons = "; ".join(history.problems) or "no iteration is recorded yet"
        raise InputError(f"{history.folder.path}: nothing to draw: {reasons}")
    for column in wanted:
        if column not in known:
            near = difflib.get_close_matches(column, known, n=3, cutoff=0.4) or known
            raise InputError(f"no column {column!r} in {history.folder.metrics}\n    there are: {', '.join(near)}")
