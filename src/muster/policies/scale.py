"""A fixed scale for observations, as a policy applies it. NumPy alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

CLIP = np.float32(10.0)


@dataclass(frozen=True)
class Scale:
    """Mean and standard deviation that normalise observations; these are clipped at ten standard deviations."""

    mean: Array
    std: Array

    @classmethod
    def identity(cls, size: int) -> Scale:
        """Return the scale that only clips."""
        return cls(np.zeros(size, np.float32), np.ones(size, np.float32))

    def apply(self, rows: Array, out: Array) -> Array:
        """Write normalised rows to `out`."""
        np.subtract(rows, self.mean, out=out)
        np.divide(out, self.std, out=out)
        np.minimum(out, CLIP, out=out)
        return np.maximum(out, -CLIP, out=out)
