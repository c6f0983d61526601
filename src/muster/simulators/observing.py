"""Whether encoded observations are what their space promises: finite numbers within its bounds. NumPy alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.simulators.describing import Description

Array = NDArray[Any]

_LARGEST = float(np.finfo(np.float32).max)
_ROUNDING = 1e-5


class ObservationCheck:
    """Tells rows of encoded observations that a learner must never see.

    Clipping to the bounds changes NaN, infinity and what lies out of bounds, and nothing else; so comparing bytes
    with what was clipped finds all three. Bounds are taken with a margin for rounding to float32.
    """

    def __init__(self, observations: Description, num_rows: int, size: int, *, bounds: bool) -> None:
        self._low = np.full(size, -_LARGEST, np.float32)
        self._high = np.full(size, _LARGEST, np.float32)
        if bounds:
            self._take_bounds(observations)
        self._all_low, self._all_high = (np.tile(end, (num_rows, 1)) for end in (self._low, self._high))
        self._clipped, self._clipped_row = np.empty((num_rows, size), np.float32), np.empty(size, np.float32)

    def _take_bounds(self, observations: Description) -> None:
        if observations["kind"] == "multi_binary":
            self._low[:], self._high[:] = 0.0, 1.0
        elif observations["kind"] == "box":
            for target, sign in ((self._low, -1), (self._high, 1)):
                given = np.array(observations["low" if sign < 0 else "high"], dtype=float)
                loosened = given + sign * _ROUNDING * np.maximum(1.0, np.abs(given))
                target[:] = np.where(np.isfinite(given), np.clip(loosened, -_LARGEST, _LARGEST), target)

    def all_good(self, rows: Array) -> bool:
        """Return whether every row, of as many as the check was made for, is good."""
        clipped = np.fmin(np.fmax(rows, self._all_low, out=self._clipped), self._all_high, out=self._clipped)
        # The bytes of zeros may differ, by their sign.
        return clipped.tobytes() == rows.tobytes() or bool((clipped == rows).all())

    def problem(self, row: Array) -> str | None:
        """Return what is wrong with one row, or None."""
        clipped = np.fmin(np.fmax(row, self._low, out=self._clipped_row), self._high, out=self._clipped_row)
        if clipped.tobytes() == row.tobytes() or (clipped == row).all():
            return None
        if not np.isfinite(row).all():
            return "observation is not finite"
        k = int(np.flatnonzero(clipped != row)[0])
        return (
            f"observation lies outside its space: entry {k} is {row[k]:.7g}, expected {self._low[k]:.5g} to "
            f"{self._high[k]:.5g} (env.check_bounds = false lets it pass)"
        )
