"""The simulator's schedule: which value each of its keys has by now, and when the next one is due."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from muster.errors import ExperimentError, Problem
from muster.experiment import LoadedExperiment
from muster.experiment.schema import EnvSection, Stage
from muster.stepping.survey import Survey
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


def stages_to_come(env: EnvSection) -> tuple[dict[str, Any], ...]:
    """Return the values of all keys when each has reached its first stage, its second, and so on."""
    most = max((len(stages) for stages in env.schedule.values()), default=0)
    keys = [(key, stages) for key, stages in env.schedule.items() if stages]
    return tuple({key: stages[min(k, len(stages) - 1)].value for key, stages in keys} for k in range(most))


def require_stages(loaded: LoadedExperiment, survey: Survey) -> None:
    """Refuse a schedule that the simulator cannot follow.

    Raises:
        ExperimentError: naming the first stage with which it does not begin.
    """
    if survey.stage_problem is not None:
        hint = "see env.schedule and env.schedule_method"
        problem = Problem(loaded.place("env.schedule"), survey.stage_problem, hint)
        raise ExperimentError(loaded.subject, [problem])


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
    if not all(_is_number(stage.value) for stage in stages):
        return count
    return value if _is_number(value) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_due(stage: Stage, key: str, progress: Progress) -> bool:
    if stage.steps is not None:
        return progress.steps >= stage.steps
    assert stage.return_ is not None
    since = progress.episodes - progress.stage_began.get(key, 0)
    returns = progress.returns[-since:] if since else []
    return since >= FEWEST_EPISODES and float(np.mean(returns)) >= stage.return_
