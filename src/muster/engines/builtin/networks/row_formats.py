"""The formats of rows of observations: what a group keeps, what is measured, and how a network reads each.

A row holds numbers (float32), pixels as bytes (uint8), or column numbers (intp): of those columns of a one-hot row
that are 1. An array's dtype is its format, and only this module looks at it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.policies.scale import Scale
from muster.simulators.describing import Description
from muster.simulators.encoding import BRIGHTEST, ObservationEncoder, RowEncoder

Array = NDArray[Any]

_UNPACKED_AT_ONCE = 256


@dataclass(frozen=True)
class RowFormat:
    """How one experiment's observations are encoded, measured and kept."""

    encoder: RowEncoder
    """What writes an observation to a row."""

    kept_dtype: type[Any]
    """Of the rows that a fragment keeps."""

    scalable: NDArray[np.bool_]
    """Which entries of a dense row are measurements that may be normalised."""

    @property
    def is_measured(self) -> bool:
        """Whether the mean and standard deviation of raw rows are measured."""
        return bool(self.scalable.any())

    def keep(self, rows: Array, scale: Scale | None, out: Array) -> Array:
        """Write encoded rows to `out` as a fragment keeps them; return them as a network reads them."""
        if self.kept_dtype is np.uint8:
            out[:] = packed(rows)
            return rows
        if scale is None:
            out[:] = rows
            return out
        return scale.apply(rows, out)


def row_format(observations: Description, *, takes_columns: bool) -> RowFormat:
    """Return the format for an observation space; `takes_columns`: the network reads column numbers, too."""
    encoder = ObservationEncoder(observations)
    scalable = encoder.scalable
    columns = encoder.columns() if takes_columns else None
    if columns is not None:
        return RowFormat(columns, columns.dtype, scalable)
    return RowFormat(encoder, np.uint8 if encoder.is_all_pixels else encoder.dtype, scalable)


def packed(rows: Array) -> Array:
    """Return encoded pixels, from 0 to 1, as bytes: a quarter of the memory, and the same numbers to the bit."""
    return np.rint(np.clip(rows * BRIGHTEST, 0, BRIGHTEST)).astype(np.uint8)


class _ColumnRows:
    """Column numbers in place of the one-hot rows that they stand for, as a factor of a product."""

    __slots__ = ("columns",)

    def __init__(self, columns: Array) -> None:
        self.columns = columns

    def __matmul__(self, weight: Array) -> Array:
        total = weight.take(self.columns[:, 0], axis=0)
        for k in range(1, self.columns.shape[1]):
            total += weight.take(self.columns[:, k], axis=0)
        return total


def factor(rows: Array) -> Any:
    """Return `f` such that `f @ weight` is `dense(rows, width) @ weight`, without making dense rows."""
    return rows if rows.dtype.kind == "f" else _ColumnRows(rows)


def dense(rows: Array, width: int) -> Array:
    """Return rows of any format as rows of `width` numbers."""
    if rows.dtype.kind == "f":
        return rows
    if rows.dtype == np.uint8:
        return np.divide(rows, BRIGHTEST, dtype=np.float32)
    one_hot = np.zeros((len(rows), width), np.float32)
    starts = np.arange(0, one_hot.size, width)
    one_hot.reshape(-1)[rows + starts[:, None]] = 1.0
    return one_hot


def dense_blocks(rows: Array, width: int) -> Iterator[Array]:
    """Yield all rows as numbers; packed ones some at a time, since all of them would take much memory."""
    size = _UNPACKED_AT_ONCE if rows.dtype == np.uint8 else max(1, len(rows))
    for start in range(0, len(rows), size):
        yield dense(rows[start : start + size], width)
