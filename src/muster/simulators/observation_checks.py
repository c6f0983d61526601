"""Whether encoded observations are what their space promises: finite numbers within its bounds. NumPy alone."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from muster.simulators.describing import Description
from muster.simulators.encoding import BRIGHTEST, ColumnEncoder, ObservationEncoder, RowEncoder, are_within

Array = NDArray[Any]

_LARGEST = float(np.finfo(np.float32).max)
_ROUNDING = 1e-5


class Check(Protocol):
    """Tells rows of encoded observations that a learner must never see."""

    def all_good(self, rows: Array) -> bool:
        """Return whether every row, of as many as the check was made for, is good."""

    def problem(self, row: Array) -> str | None:
        """Return what is wrong with one row, or None."""


class ColumnCheck:
    """Tells numbers of columns that are not those of their choice."""

    def __init__(self, encoder: ColumnEncoder) -> None:
        self._encoder = encoder
        self._first, self._count = encoder.first, encoder.count

    def all_good(self, rows: Array) -> bool:
        """Return whether every row is good."""
        return are_within(rows, self._first, self._count)

    def problem(self, row: Array) -> str | None:
        """Return what is wrong with one row, or None."""
        return None if self.all_good(row) else self._encoder.problem(row)


class NumberCheck:
    """Tells numbers that are not finite, or out of bounds.

    Clipping to the bounds changes NaN, infinity and what lies out of bounds, and nothing else; so comparing bytes
    with what was clipped finds all three. Bounds are taken with a margin for rounding to float32. Choices are
    one-hot, and always good.
    """

    def __init__(self, encoder: ObservationEncoder, num_rows: int, *, bounds: bool) -> None:
        self._parts = encoder.parts
        self._is_needed = any(leaf["kind"] not in ("discrete", "multi_discrete") for _, leaf, _ in self._parts)
        self._low = np.full(encoder.size, -_LARGEST, np.float32)
        self._high = np.full(encoder.size, _LARGEST, np.float32)
        if bounds:
            for _, leaf, place in self._parts:
                low, high = _bounds(leaf)
                self._low[place] = _within_float32(low - _ROUNDING * np.maximum(1.0, np.abs(low)))
                self._high[place] = _within_float32(high + _ROUNDING * np.maximum(1.0, np.abs(high)))
        self._all_low, self._all_high = (np.tile(end, (num_rows, 1)) for end in (self._low, self._high))
        self._clipped = np.empty((num_rows, encoder.size), np.float32)
        self._clipped_row = np.empty(encoder.size, np.float32)

    def all_good(self, rows: Array) -> bool:
        """Return whether every row, of as many as the check was made for, is good."""
        if not self._is_needed:
            return True
        clipped = np.fmin(np.fmax(rows, self._all_low, out=self._clipped), self._all_high, out=self._clipped)
        # The bytes of zeros may differ, by their sign.
        return clipped.tobytes() == rows.tobytes() or bool((clipped == rows).all())

    def problem(self, row: Array) -> str | None:
        """Return what is wrong with one row, or None."""
        if not self._is_needed:
            return None
        clipped = np.fmin(np.fmax(row, self._low, out=self._clipped_row), self._high, out=self._clipped_row)
        if clipped.tobytes() == row.tobytes() or (clipped == row).all():
            return None
        unlike = np.flatnonzero(clipped != row)
        infinite = unlike[~np.isfinite(row[unlike])]
        return self._described(row, int(infinite[0] if len(infinite) else unlike[0]))

    def _described(self, row: Array, k: int) -> str:
        """Name the part and the entry of it that is wrong, by the numbers that the simulator gave."""
        name, leaf, place = next(part for part in self._parts if k < part[2].stop)
        if not np.isfinite(row[k]):
            return f"{name} is not finite"
        entry, unit = k - place.start, BRIGHTEST if leaf["kind"] == "image" else 1.0
        low, high = (np.broadcast_to(end, place.stop - place.start)[entry] * unit for end in _bounds(leaf))
        return (
            f"{name} lies outside its space: entry {entry} is {row[k] * unit:.7g}, expected {low:.5g} to "
            f"{high:.5g} (env.check_bounds = false lets it pass)"
        )


def check_for(encoder: RowEncoder, num_rows: int, *, bounds: bool) -> Check:
    """Return the check of so many rows that an encoder has written."""
    if isinstance(encoder, ColumnEncoder):
        return ColumnCheck(encoder)
    assert isinstance(encoder, ObservationEncoder)
    return NumberCheck(encoder, num_rows, bounds=bounds)


def _bounds(leaf: Description) -> tuple[Array, Array]:
    """Return the bounds of a part's entries: infinite where there are none; 0 to 1 for all but measurements."""
    if leaf["kind"] != "box":
        return np.zeros(1), np.ones(1)
    low, high = (np.array(leaf[end], dtype=float) for end in ("low", "high"))
    return np.where(np.isfinite(low), low, -np.inf), np.where(np.isfinite(high), high, np.inf)


def _within_float32(bounds: Array) -> Array:
    return np.clip(bounds, -_LARGEST, _LARGEST)
