"""The columns that an algorithm adds to the record: the fields of a NamedTuple, each name written once.

The first underscore of a field's name is the column's slash: `policy_clip_fraction` is `policy/clip_fraction`.
"""

from __future__ import annotations

from typing import Any

Metrics = dict[str, float | None]


def column_names(metrics: Any) -> tuple[str, ...]:
    """Return the columns of a NamedTuple of metrics, or of its class."""
    return tuple(name.replace("_", "/", 1) for name in metrics._fields)


def columns(metrics: Any) -> Metrics:
    """Return a NamedTuple of metrics by column."""
    return dict(zip(column_names(metrics), metrics, strict=True))
