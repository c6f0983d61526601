"""Gradient steps on one flat vector: Adam, the schedule of its learning rate, the limit of a gradient's norm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.errors import NonFiniteUpdateError

Array = NDArray[Any]

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-5
_FORGET_EVERY = 64
_FADED = 1e-30
"""Far too small to change a weight, and large enough not to become subnormal before the next check."""


@dataclass
class Adam:
    """Exponentially decaying sums of the gradient and of its square, and the number of steps taken."""

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
        """Move the parameters against the gradient, in place; the gradient is overwritten.

        Adam's moment estimates are these sums times constants, which are folded into two scalars. All scalars are
        Python's: NumPy's would make it compute in double precision.
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
        """Set to zero what has decayed away, as happens where an input is always zero.

        It would become subnormal, and arithmetic with subnormal numbers is many times slower.
        """
        for faded in (self.gradients, self.squares):
            faded[np.abs(faded) < _FADED] = 0.0


def scheduled(lr: float, schedule: str, fraction_done: float) -> float:
    """Return the learning rate when this fraction of the run is done; `linear` ends at zero."""
    return lr * (1 - fraction_done if schedule == "linear" else 1)


def clip_norm(gradient: Array, largest: float | None) -> float:
    """Scale a gradient down to the largest norm, in place; return the norm it had.

    Raises:
        NonFiniteUpdateError: if the norm is not finite.
    """
    norm = float(np.sqrt(gradient @ gradient))
    if not np.isfinite(norm):
        raise NonFiniteUpdateError("a gradient is not finite")
    if largest is not None and norm > largest:
        gradient *= largest / norm
    return norm
