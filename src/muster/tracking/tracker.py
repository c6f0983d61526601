"""What every tracker can do, and what of a run's points it still lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from muster.tracking.points import Point, TrackedRun

Known = dict[str, dict[int, float]]
"""What a tracker has: for each metric its value at each step."""


class Tracker(Protocol):
    """One run in a tracker."""

    def begin(self, run: TrackedRun) -> str:
        """Find the tracker's own run of this one, or make it; return where a person finds it.

        Raises:
            TrackerError: if the tracker refuses or cannot be reached.
        """
        ...

    def known(self) -> Known:
        """Return what the tracker has of the run."""
        ...

    def send(self, points: Sequence[Point]) -> None:
        """Store points; return when they are stored."""
        ...

    def end(self, state: str) -> None:
        """Say how the run is now, as `ending_of` names it, and close what is open."""
        ...


class Lacking:
    """Chooses the points that a tracker lacks, so that it gets each of them once.

    An iteration that was cut on resume and trained again, perhaps at other steps, is not sent a second time:
    trackers cannot take values back.
    """

    def __init__(self, known: Mapping[str, Mapping[int, float]]) -> None:
        self._steps = {name: set(values) for name, values in known.items()}
        self._last = {name: max(values.values()) for name, values in known.items() if values}
        self._done: set[tuple[str, int]] = set()
        self.repeated: set[tuple[str, int]] = set()
        """Points that were trained again, at other steps, since they were sent."""

    def of(self, points: Iterable[Point]) -> list[Point]:
        """Return the points, or those values of a point, that are still to be sent."""
        found = []
        for point in points:
            if (point.counter, point.step) in self._done:
                continue
            is_there = point.step in self._steps.get(point.counter, ())
            if not is_there and point.number <= self._last.get(point.counter, -1):
                self.repeated.add((point.counter, point.number))
                self._done.add((point.counter, point.step))
                continue
            lacking = {name: value for name, value in point.values.items() if not self._has(name, point.step)}
            if lacking:
                found.append(replace(point, values=lacking))
            else:
                self._done.add((point.counter, point.step))
        return found

    def _has(self, name: str, step: int) -> bool:
        return step in self._steps.get(name, ())

    def note(self, points: Iterable[Point]) -> None:
        """Note that points were stored."""
        for point in points:
            self._last[point.counter] = max(self._last.get(point.counter, -1), point.number)
            self._done.add((point.counter, point.step))
            for name in point.values:
                self._steps.setdefault(name, set()).add(point.step)
