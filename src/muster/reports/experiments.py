"""What an experiment is made of, key by key: beside the defaults, and beside other experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from muster.experiment.schema import Experiment

_NOT_GIVEN = "-"


def flat(experiment: Experiment) -> dict[str, str]:
    """Return the value of every key, as text."""
    return dict(_leaves(experiment.as_table()))


def from_defaults(experiment: Experiment) -> dict[str, tuple[str, str]]:
    """Return value and default of each key that differs from its default."""
    algorithm = {"name": experiment.algorithm.name, "engine": experiment.algorithm.engine}
    try:
        plain = Experiment.model_validate({"env": {"id": experiment.env.id}, "algorithm": algorithm})
    except ValidationError:
        plain = Experiment.model_validate({"env": {"id": experiment.env.id}})
    return {key: (one, other) for key, (one, other) in differences([experiment, plain]).items()}


def differences(experiments: Sequence[Experiment]) -> dict[str, tuple[str, ...]]:
    """Return the keys in which experiments differ, each with the values of all."""
    tables = [flat(experiment) for experiment in experiments]
    keys = dict.fromkeys(key for table in tables for key in table)
    found = {key: tuple(table.get(key, _NOT_GIVEN) for table in tables) for key in keys}
    return {key: values for key, values in found.items() if len(set(values)) > 1}


def _leaves(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    found = []
    for key, value in table.items():
        if isinstance(value, Mapping):
            found += _leaves(value, f"{prefix}{key}.")
        else:
            found.append((f"{prefix}{key}", _text(value)))
    return found


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
