"""Conjugate gradient and backtracking line search, as plain functions of vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def conjugate_gradient(
    product: Callable[[Array], Array], target: Array, iterations: int, tolerance: float = 1e-10
) -> Array:
    """Return x with A x = target, approximately, given the product v -> A v of a positive definite A."""
    solution = np.zeros_like(target)
    residual = target.copy()
    direction = target.copy()
    squared = residual @ residual
    for _ in range(iterations):
        if squared < tolerance:
            break
        image = product(direction)
        curvature = direction @ image
        if curvature <= 0:
            break
        length = squared / curvature
        solution += length * direction
        residual -= length * image
        previous, squared = squared, residual @ residual
        direction = residual + (squared / previous) * direction
    return solution


class Step(NamedTuple):
    """The result of a line search: the point, the fraction of the step taken, improvement and divergence there."""

    point: Array
    fraction: float
    improvement: float
    divergence: float


def line_search(
    evaluate: Callable[[Array], tuple[float, float]],
    start: Array,
    step: Array,
    max_divergence: float,
    steps: int,
) -> Step:
    """Halve the step until it improves the objective within the trust region.

    `evaluate` returns a point's improvement over the start and its divergence from it. Without an acceptable
    fraction, the result is the start.
    """
    fraction = 1.0
    for _ in range(steps):
        candidate = start + (fraction * step).astype(start.dtype)
        improvement, divergence = evaluate(candidate)
        if np.isfinite(improvement) and improvement > 0 and divergence <= max_divergence:
            return Step(candidate, fraction, improvement, divergence)
        fraction *= 0.5
    return Step(start.copy(), 0.0, 0.0, 0.0)
