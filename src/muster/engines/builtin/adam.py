"""Adam on one flat vector."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-5
_FORGET_EVERY = 64
_FADED = 1e-30
"""Far too small for a step that a weight would notice, and still normal after as many steps as lie between."""


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
        """Move the parameters against the gradient, in place; the gradient is used up.

        All scalars are Python's: NumPy's would have it compute in double precision.
        """
        self.steps += 1
        if self.steps % _FORGET_EVERY == 0:
            self._forget()
        correction = math.sqrt(1 - _BETA2**self.steps)
        scratch = gradient * gradient
        scratch *= 1 - _BETA2
        self.square *= _BETA2
        self.square += scratch
        gradient *= 1 - _BETA1
        self.mean *= _BETA1
        self.mean += gradient
        np.sqrt(self.square, out=scratch)
        scratch += _EPSILON * correction
        np.divide(self.mean, scratch, out=scratch)
        scratch *= lr * correction / (1 - _BETA1**self.steps)
        parameters -= scratch

    def _forget(self) -> None:
        """Set to zero what has faded away, as it does where an input is always zero.

        It would become subnormal, and computing with such numbers is many times slower.
        """
        for faded in (self.mean, self.square):
            faded[np.abs(faded) < _FADED] = 0.0
