"""Counts and durations as people write them."""

from __future__ import annotations

import pytest

from muster.experiment.quantities import format_duration, parse_count, parse_duration


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1_000_000", 1_000_000),
        ("1e6", 1_000_000),
        (1e6, 1_000_000),
        ("500k", 500_000),
        ("1.5M", 1_500_000),
        (7, 7),
    ],
)
def test_counts(text: object, count: int) -> None:
    assert parse_count(text) == count


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30m", 1800),
        ("1h30m", 5400),
        ("90s", 90),
        ("90", 90),
        (90, 90),
        ("02:00:00", 7200),
        ("1-12:00:00", 129_600),
    ],
)
def test_durations(text: object, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["many", "", "1e6 steps"])
def test_bad_counts(text: str) -> None:
    with pytest.raises(ValueError, match="expected a count"):
        parse_count(text)


@pytest.mark.parametrize("text", ["soon", "30 minutes of", "3x"])
def test_bad_durations(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(1.25, "1.2s"), (42, "42s"), (90, "1m30s"), (5400, "1h30m"), (129_600, "1d12h")]
)
def test_durations_are_written_briefly(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
