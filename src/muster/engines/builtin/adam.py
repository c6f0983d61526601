"""Adam on one flat vector."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-5


@dataclass
class Adam:
    """Running means of the gradient and its square, and how many steps were taken."""

    mean: Array
    square: Array
    steps: int = 0

    @classmethod
    def create(cls, size: int) -> Adam:
        """Return the state before the first step."""
        return cls(np.zeros(size, np.float32), np.zeros(size, np.float32))

    def copy(self) -> Adam:
        """Return a state that can change on its own."""
        return Adam(self.mean.copy(), self.square.copy(), self.steps)

    def step(self, parameters: Array, gradient: Array, lr: float) -> None:
        """Move the parameters against the gradient, in place.

        All scalars are Python's: NumPy's would have it compute in double precision.
        """
        self.steps += 1
        correction = math.sqrt(1 - _BETA2**self.steps)
        scratch = (1 - _BETA1) * gradient
        self.mean *= _BETA1
        self.mean += scratch
        np.multiply(gradient, gradient, out=scratch)
        scratch *= 1 - _BETA2
        self.square *= _BETA2
        self.square += scratch
        np.sqrt(self.square, out=scratch)
        scratch += _EPSILON * correction
        np.divide(self.mean, scratch, out=scratch)
        scratch *= lr * correction / (1 - _BETA1**self.steps)
        parameters -= scratch
