"""Statistics over few runs: interquartile mean, stratified bootstrap interval, probability of improvement.

As recommended by Agarwal et al. (2021), "Deep Reinforcement Learning at the Edge of the Statistical Precipice". A
table of scores has a row for each run (seed) and a column for each task; runs are resampled within each task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

RESAMPLES = 2000
FEWEST_SEEDS = 5
"""With fewer runs, an interval by resampling is too narrow, and says little."""

Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """An estimate and its 95 % interval."""

    value: float
    low: float
    high: float


def interquartile_mean(scores: ArrayLike, axis: int = -1) -> NDArray[Any]:
    """Return the mean of the middle half along an axis: a quarter is cut at each end, rounded down."""
    ordered = np.sort(np.asarray(scores, np.float64), axis=axis)
    count = ordered.shape[axis]
    cut = count // 4
    middle: NDArray[Any] = np.take(ordered, range(cut, count - cut), axis=axis).mean(axis=axis)
    return middle


def resampled(scores: Scores, resamples: int = RESAMPLES, seed: int = 0) -> Scores:
    """Return bootstrap samples of a table, resamples first: runs are drawn anew for every task."""
    runs, tasks = scores.shape
    rng = np.random.default_rng(seed)
    drawn = rng.integers(runs, size=(resamples, runs, tasks))
    return np.take_along_axis(scores[None], drawn, axis=1)


def interval_of_mean(scores: ArrayLike, resamples: int = RESAMPLES) -> Interval:
    """Return the interquartile mean of a table, or of one task's runs, with its stratified bootstrap interval."""
    table = _table(scores)
    samples = interquartile_mean(resampled(table, resamples).reshape(resamples, -1))
    return _interval(float(interquartile_mean(table.ravel())), samples)


def band(curves: ArrayLike, resamples: int = RESAMPLES) -> tuple[Scores, Scores, Scores]:
    """Return interquartile mean and both ends of its interval at each point; curves have a row for each run."""
    table = np.asarray(curves, np.float64)
    drawn = np.random.default_rng(0).integers(len(table), size=(resamples, len(table)))
    # One point at a time, since all resamples of all points would need much memory.
    samples = np.stack([interquartile_mean(table[:, point][drawn]) for point in range(table.shape[1])], axis=1)
    low, high = np.percentile(samples, [2.5, 97.5], axis=0)
    return interquartile_mean(table, axis=0), low, high


def probability_of_improvement(first: ArrayLike, second: ArrayLike, resamples: int = RESAMPLES) -> Interval:
    """Return how likely a run of the first beats one of the second; ties count half; the mean over tasks."""
    one, other = _table(first), _table(second)

    def probability(left: Scores, right: Scores) -> NDArray[Any]:
        difference = left[..., :, None, :] - right[..., None, :, :]
        share: NDArray[Any] = (0.5 * (np.sign(difference) + 1)).mean(axis=(-3, -2)).mean(axis=-1)
        return share

    samples = probability(resampled(one, resamples), resampled(other, resamples, seed=1))
    return _interval(float(probability(one, other)), samples)


def mean_difference(first: ArrayLike, second: ArrayLike) -> Interval:
    """Return by how much the first exceeds the second in the mean over pairs, with a large sample's interval."""
    differences = np.asarray(first, np.float64) - np.asarray(second, np.float64)
    mean, count = float(differences.mean()), len(differences)
    half = 1.96 * float(differences.std(ddof=1)) / count**0.5 if count > 1 else 0.0
    return Interval(mean, mean - half, mean + half)


def _table(scores: ArrayLike) -> Scores:
    table = np.asarray(scores, np.float64)
    return table[:, None] if table.ndim == 1 else table


def _interval(value: float, samples: NDArray[Any]) -> Interval:
    low, high = np.percentile(samples, [2.5, 97.5])
    return Interval(value, float(low), float(high))
