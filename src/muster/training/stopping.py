"""The stop rules: which is met, and how near the nearest one is."""

from __future__ import annotations

from muster.experiment.quantities import counted, format_duration
from muster.experiment.schema import StopSection
from muster.training.progress import WINDOW, Progress

DEFAULT_STEPS = 1_000_000


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


def seconds_left(stop: StopSection, progress: Progress) -> float | None:
    """Return the time to the nearest countable stop at the pace so far; None if it cannot be told."""
    fractions = [fraction_done(stop, progress)]
    if stop.time is not None:
        fractions.append(progress.seconds / stop.time)
    done = max(fractions)
    return progress.seconds * (1 - done) / done if 0.02 < done < 1 else None


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
