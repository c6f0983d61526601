"""Running count, mean and standard deviation, merged exactly: the observation normaliser and the reward scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.policies.scale import Scale

Array = NDArray[Any]

_EPSILON = 1e-8


@dataclass(frozen=True)
class Moments:
    """Count, mean and sum of squared deviations per entry, in double precision."""

    count: float
    mean: Array
    deviations: Array

    @classmethod
    def empty(cls, size: int) -> Moments:
        """Return the moments of no samples."""
        return cls(0.0, np.zeros(size), np.zeros(size))

    @classmethod
    def of(cls, rows: Array) -> Moments:
        """Return the moments of rows `[B, size]`."""
        if not len(rows):
            return cls.empty(rows.shape[1])
        mean = rows.mean(axis=0, dtype=np.float64)
        return cls(float(len(rows)), mean, ((rows - mean) ** 2).sum(axis=0))

    def merged(self, other: Moments) -> Moments:
        """Return the moments of both samples together."""
        if not other.count:
            return self
        count = self.count + other.count
        difference = other.mean - self.mean
        mean = self.mean + difference * (other.count / count)
        cross = difference**2 * (self.count * other.count / count)
        return Moments(count, mean, self.deviations + other.deviations + cross)

    @property
    def std(self) -> Array:
        """Standard deviation per entry; 1 as long as there are fewer than two samples."""
        if self.count < 2:
            return np.ones_like(self.mean)
        return np.sqrt(self.deviations / self.count + _EPSILON)

    def scale(self, scalable: Array) -> Scale:
        """Return the scale that these moments give to the scalable entries; the others stay as they are."""
        mean = np.where(scalable, self.mean, 0.0).astype(np.float32)
        return Scale(mean, np.where(scalable, self.std, 1.0).astype(np.float32))
