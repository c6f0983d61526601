"""State-dependent exploration (gSDE): deviations that grow out of the features which the last layer reads.

Every number of an action has noise `features @ direction`, with a direction drawn seldom, each of its entries
with a deviation of its own, `exp(log_std)` `[features, numbers]`. At a state this is a Gaussian with the variance
`features² @ exp(log_std)²`. The features count as given: learning the noise does not change them. NumPy alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_EPSILON = 1e-6


def log_std_at(features: Array, log_std: Array) -> Array:
    """Return the logarithm of each number's deviation at the features, `[B, numbers]`."""
    logarithm: Array = 0.5 * np.log(_variance(features, log_std))
    return logarithm


def pull_back(features: Array, log_std: Array, at_log_std: Array) -> Array:
    """Return the gradient at the parameters, given that at the deviations' logarithms."""
    gradient: Array = np.exp(2 * log_std) * ((features**2).T @ (at_log_std / _variance(features, log_std)))
    return gradient


def push_forward(features: Array, log_std: Array, direction: Array) -> Array:
    """Return how the deviations' logarithms change when the parameters move along a direction."""
    change: Array = (features**2 @ (np.exp(2 * log_std) * direction)) / _variance(features, log_std)
    return change


def standardised(features: Array, log_std: Array, directions: Array) -> Array:
    """Return the noise at the features in units of its deviation, from standard normal directions `[B, H, A]`."""
    noise = np.einsum("bh,bha->ba", features, directions * np.exp(log_std))
    units: Array = noise / np.sqrt(_variance(features, log_std))
    return units


def _variance(features: Array, log_std: Array) -> Array:
    variance: Array = features**2 @ np.exp(2 * log_std) + _EPSILON
    return variance
