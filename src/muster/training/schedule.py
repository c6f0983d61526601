"""The simulator's schedule: which value each of its keys has by now, and when the next one is due."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from muster.experiment.schema import EnvSection, Stage
from muster.training.progress import Progress

FEWEST_EPISODES = 20
"""Episodes that must have ended since a key's value changed, before their return decides about the next."""


def scheduled_values(env: EnvSection, progress: Progress) -> dict[str, Any]:
    """Return the values of the scheduled keys that have changed by now."""
    reached = {key: progress.stages.get(key, 0) for key in env.schedule}
    return {key: env.schedule[key][count - 1].value for key, count in reached.items() if count}


def advance(env: EnvSection, progress: Progress) -> dict[str, Any]:
    """Enter every stage that is due, at most one for each key; return the values that changed."""
    changed = {}
    for key, stages in env.schedule.items():
        count = progress.stages.get(key, 0)
        if count < len(stages) and _is_due(stages[count], key, progress):
            progress.stages[key] = count + 1
            progress.stage_began[key] = progress.episodes
            changed[key] = stages[count].value
    return changed


def schedule_columns(env: EnvSection) -> tuple[str, ...]:
    """Return the columns that the schedule adds to the record."""
    return tuple(f"schedule/{key}" for key in env.schedule)


def schedule_row(env: EnvSection, progress: Progress) -> dict[str, float | int | None]:
    """Return each key's value if it is a number, else how many of its stages have begun."""
    values: Mapping[str, Any] = {**env.config, **scheduled_values(env, progress)}
    return {
        f"schedule/{key}": _plain(values.get(key), progress.stages.get(key, 0), stages)
        for key, stages in env.schedule.items()
    }


def _plain(value: Any, count: int, stages: list[Stage]) -> float | int | None:
    are_numbers = all(isinstance(stage.value, int | float) for stage in stages)
    if not are_numbers:
        return count
    return value if isinstance(value, int | float) else None


def _is_due(stage: Stage, key: str, progress: Progress) -> bool:
    if stage.steps is not None:
        return progress.steps >= stage.steps
    assert stage.return_ is not None
    since = progress.episodes - progress.stage_began.get(key, 0)
    returns = progress.returns[-since:] if since else []
    return since >= FEWEST_EPISODES and float(np.mean(returns)) >= stage.return_
