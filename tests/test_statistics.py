"""Statistics over few runs, against published values and those that rliable gives."""

from __future__ import annotations

import numpy as np
import pytest

from muster.statistics import band, interquartile_mean, interval_of_mean, probability_of_improvement

FIRST = [
    [0.62, 0.81, 0.35, 1.10],
    [0.55, 0.92, 0.41, 0.97],
    [0.71, 0.40, 0.38, 1.25],
    [0.66, 0.88, 0.12, 1.02],
    [0.58, 0.85, 0.44, 0.60],
]
SECOND = [
    [0.52, 0.79, 0.30, 0.91],
    [0.61, 0.70, 0.33, 0.88],
    [0.49, 0.83, 0.36, 1.05],
    [0.57, 0.66, 0.29, 0.95],
    [0.60, 0.77, 0.31, 0.45],
]
"""Scores of five runs in four tasks."""
NOISE = 0.012
"""Both resample at random."""


def test_the_interquartile_mean_of_a_published_example() -> None:
    """The twelve numbers with which Wikipedia explains it."""
    assert interquartile_mean([5, 8, 4, 38, 8, 6, 9, 7, 7, 3, 1, 6]) == 6.5
    assert interquartile_mean([1.0, 2.0, 30.0]) == pytest.approx(11.0), "nothing to cut of three"


@pytest.mark.parametrize(
    ("table", "expected"),
    [(FIRST, (0.67, 0.569, 0.756)), (SECOND, (0.616, 0.548, 0.678))],
    ids=["first", "second"],
)
def test_means_and_intervals_are_those_of_rliable(
    table: list[list[float]], expected: tuple[float, float, float]
) -> None:
    """Expected: rliable 1.2.0, `aggregate_iqm` with 50,000 stratified resamples."""
    found = interval_of_mean(table)
    assert found.value == pytest.approx(expected[0])
    assert (found.low, found.high) == pytest.approx(expected[1:], abs=NOISE)


def test_the_probability_of_improvement_is_that_of_rliable() -> None:
    """Expected: rliable 1.2.0, `probability_of_improvement` with 20,000 stratified resamples."""
    found = probability_of_improvement(FIRST, SECOND)
    assert found.value == pytest.approx(0.77)
    assert (found.low, found.high) == pytest.approx((0.60, 0.92), abs=2 * NOISE)
    assert probability_of_improvement([1.0, 2.0], [1.0, 2.0]).value == 0.5, "ties count half"
    assert probability_of_improvement(SECOND, FIRST).value == pytest.approx(0.23)


def test_runs_are_resampled_within_each_task() -> None:
    """Tasks of different levels, whose runs are alike: nothing is uncertain."""
    found = interval_of_mean(np.tile([1.0, 10.0, 100.0, 1000.0], (5, 1)))
    assert (found.low, found.high) == (found.value, found.value)


def test_a_band_holds_the_interval_of_every_point() -> None:
    curves = np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0], [4.0, 5.0]])
    middle, low, high = band(curves)
    assert middle.tolist() == [2.5, 5.0]
    assert low[0] < 2.5 < high[0]
    assert (low[1], high[1]) == (5.0, 5.0)
