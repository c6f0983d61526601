"""State-dependent exploration (gSDE): standard deviations that depend on the last hidden layer's features.

Every continuous action has noise `features @ direction`. A direction is drawn every so many steps; each of its
entries has its own standard deviation, `exp(log_std)` `[features, actions]`. At a state this is a Gaussian with
variance `features² @ exp(log_std)²`. Gradients of the noise do not reach the features. NumPy alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_EPSILON = 1e-6


def log_std_at(features: Array, log_std: Array) -> Array:
    """Return the log standard deviation of each action at the features, `[B, actions]`."""
    logarithm: Array = 0.5 * np.log(_variance(features, log_std))
    return logarithm


def pull_back(features: Array, log_std: Array, at_log_std: Array) -> Array:
    """Return the gradient at the parameters, given that at the log standard deviations."""
    gradient: Array = np.exp(2 * log_std) * ((features**2).T @ (at_log_std / _variance(features, log_std)))
    return gradient


def push_forward(features: Array, log_std: Array, direction: Array) -> Array:
    """Return how the log standard deviations change when the parameters move along a direction."""
    change: Array = (features**2 @ (np.exp(2 * log_std) * direction)) / _variance(features, log_std)
    return change


def standardised(features: Array, log_std: Array, directions: Array) -> Array:
    """Return the noise over its standard deviation, from standard normal directions `[B, H, A]`."""
    noise = np.einsum("bh,bha->ba", features, directions * np.exp(log_std))
    units: Array = noise / np.sqrt(_variance(features, log_std))
    return units


def _variance(features: Array, log_std: Array) -> Array:
    variance: Array = features**2 @ np.exp(2 * log_std) + _EPSILON
    return variance
