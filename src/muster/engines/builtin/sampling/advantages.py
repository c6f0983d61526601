"""Generalised advantage estimation over one fragment."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def advantages(
    rewards: Array, values: Array, next_values: Array, ended: Array, gamma: float, lambda_: float
) -> Array:
    """Return the advantage of each step of a fragment, all arrays `[T, N]`.

    `next_values` is what can still be gained after the step: the next observation's value, the *final*
    observation's where a time limit cut the episode, and 0 where the episode terminated. `ended` is true at
    the last step of an episode, whichever way it ended.
    """
    deltas = rewards + gamma * next_values - values
    carry = gamma * lambda_ * ~ended
    result = np.empty_like(deltas)
    running = np.zeros_like(deltas[0])
    for t in range(len(deltas) - 1, -1, -1):
        running = deltas[t] + carry[t] * running
        result[t] = running
    return result
