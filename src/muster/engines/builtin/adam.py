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
    """Fading sums of the gradient and its square, and how many steps were taken."""

    gradients: Array
    squares: Array
    steps: int = 0

    @classmethod
    def create(cls, size: int) -> Adam:
        """Return the state before the first step."""
        return cls(np.zeros(size, np.float32), np.zeros(size, np.float32))

    def copy(self) -> Adam:
        """Return a state that can change on its own."""
        return Adam(self.gradients.copy(), self.squares.copy(), self.steps)

    def step(self, parameters: Array, gradient: Array, lr: float) -> None:
        """Move the parameters against the gradient, in place; the gradient is used up.

        The means that Adam divides are these sums times constants, which go into two numbers. All scalars are
        Python's: NumPy's would have it compute in double precision.
        """
        self.steps += 1
        if self.steps % _FORGET_EVERY == 0:
            self._forget()
        first = (1 - _BETA1) / (1 - _BETA1**self.steps)
        second = math.sqrt((1 - _BETA2) / (1 - _BETA2**self.steps))
        self.gradients *= _BETA1
        self.gradients += gradient
        np.multiply(gradient, gradient, out=gradient)
        self.squares *= _BETA2
        self.squares += gradient
        np.sqrt(self.squares, out=gradient)
        gradient += _EPSILON / second
        np.divide(self.gradients, gradient, out=gradient)
        gradient *= lr * first / second
        parameters -= gradient

    def _forget(self) -> None:
        """Set to zero what has faded away, as it does where an input is always zero.

        It would become subnormal, and computing with such numbers is many times slower.
        """
        for faded in (self.gradients, self.squares):
            faded[np.abs(faded) < _FADED] = 0.0
