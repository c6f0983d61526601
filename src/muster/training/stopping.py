"""The stop rules: which is met, and how near the nearest one is."""

from __future__ import annotations

from collections import deque

from muster.experiment.quantities import counted, format_duration
from muster.experiment.schema import StopSection
from muster.training.progress import WINDOW, Progress

DEFAULT_STEPS = 1_000_000
PACE_ITERATIONS = 30
FEWEST_PACE_ITERATIONS = 4
SMALLEST_SHARE_DONE = 0.02


def with_default_stop(stop: StopSection, reward_threshold: float | None) -> StopSection:
    """Return the rules as given; without any, the simulator's threshold, or else a million steps."""
    if stop.model_dump(exclude_none=True):
        return stop
    if reward_threshold is not None:
        return StopSection.model_validate({"return": reward_threshold})
    return StopSection(steps=DEFAULT_STEPS)


def stop_reason(stop: StopSection, progress: Progress) -> str | None:
    """Return the rule that is met, in words, or None."""
    if stop.return_ is not None and _full_window_mean(progress) >= stop.return_:
        return f"mean return {progress.return_mean:.4g} of the last {WINDOW} episodes reached {stop.return_:g}"
    if stop.steps is not None and progress.steps >= stop.steps:
        return f"{progress.steps:,} steps reached {stop.steps:,}"
    if stop.iterations is not None and progress.iteration >= stop.iterations:
        return f"{counted(progress.iteration, 'iteration')} done"
    if stop.time is not None and progress.seconds >= stop.time:
        return f"trained for {format_duration(progress.seconds)}"
    return None


def fraction_done(stop: StopSection, progress: Progress) -> float:
    """Return how much of the planned steps or iterations is done, whichever ends first; 0 without a plan."""
    fractions = [
        done / planned
        for done, planned in ((progress.steps, stop.steps), (progress.iteration, stop.iterations))
        if planned is not None
    ]
    return min(1.0, max(fractions, default=0.0))


class TimeLeft:
    """Estimates the time to the nearest countable stop from the pace of the last iterations.

    The first iterations tell little: an algorithm with a replay buffer fills it before it learns.
    """

    def __init__(self, stop: StopSection) -> None:
        self._stop = stop
        self._points: deque[tuple[float, float]] = deque(maxlen=PACE_ITERATIONS)

    def add(self, progress: Progress, *, has_learned: bool) -> None:
        """Take an iteration; one in which nothing was learned has another pace than those to come."""
        if not has_learned:
            self._points.clear()
        done = fraction_done(self._stop, progress)
        if self._stop.time is not None:
            done = max(done, progress.seconds / self._stop.time)
        self._points.append((done, progress.seconds))

    def seconds(self) -> float | None:
        """Return the estimate; None if it cannot be told yet, or there is no countable stop."""
        if len(self._points) < FEWEST_PACE_ITERATIONS:
            return None
        (done, seconds), (before, at) = self._points[-1], self._points[0]
        if not SMALLEST_SHARE_DONE < done < 1 or done <= before:
            return None
        return (1 - done) * (seconds - at) / (done - before)


def nearest_stop(stop: StopSection, progress: Progress) -> tuple[float, str]:
    """Return how near the nearest countable stop is, from 0 to 1, and what it is, in words."""
    candidates = []
    if stop.steps is not None:
        candidates.append((progress.steps / stop.steps, f"{progress.steps:,} of {stop.steps:,} steps"))
    if stop.iterations is not None:
        text = f"{progress.iteration} of {stop.iterations} iterations"
        candidates.append((progress.iteration / stop.iterations, text))
    if stop.time is not None:
        text = f"{format_duration(progress.seconds)} of {format_duration(stop.time)}"
        candidates.append((progress.seconds / stop.time, text))
    if stop.return_ is not None and not candidates:
        mean = _full_window_mean(progress)
        fraction = mean / stop.return_ if stop.return_ > 0 and mean > 0 else 0.0
        candidates.append((fraction, f"{progress.steps:,} steps; until mean return {stop.return_:g}"))
    fraction, text = max(candidates, default=(0.0, f"{progress.steps:,} steps"))
    return min(1.0, fraction), text


def _full_window_mean(progress: Progress) -> float:
    mean = progress.return_mean
    return mean if mean is not None and len(progress.returns) >= WINDOW else float("-inf")
