"""What an experiment is made of, key by key: beside the defaults, and beside other experiments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tomli_w
from pydantic import ValidationError

from muster.experiment.schema import Experiment
from muster.experiment.tables import leaves, only
from muster.runs.reading import printable

_NOT_GIVEN = "-"


def flat(experiment: Experiment) -> dict[str, str]:
    """Return the value of every key, as text."""
    return {key: _text(value) for key, value in leaves(experiment.as_table()) if value != {}}


def from_defaults(experiment: Experiment) -> dict[str, tuple[str, str]]:
    """Return value and default of each key that differs from its default."""
    algorithm = {"name": experiment.algorithm.name, "engine": experiment.algorithm.engine}
    try:
        plain = Experiment.model_validate({"env": {"id": experiment.env.id}, "algorithm": algorithm})
    except ValidationError:
        plain = Experiment.model_validate({"env": {"id": experiment.env.id}})
    return {key: (one, other) for key, (one, other) in differences([experiment, plain]).items()}


def as_new_file(experiment: Experiment, origin: str, *, everything: bool) -> str:
    """Return a file that gives the same experiment under another name; without defaults unless all is wanted."""
    table = {key: value for key, value in experiment.as_table().items() if key != "name"}
    note = f"# The experiment of {printable(origin)}.\n"
    if not everything:
        given = from_defaults(experiment)
        short = only(table, {*given, "env.id", "algorithm.name"}.__contains__)
        if Experiment.model_validate(short).as_table() == table:
            table = short
            note = f"# The experiment of {printable(origin)}; keys that are not here have their defaults.\n"
    return note + tomli_w.dumps(table)


def differences(experiments: Sequence[Experiment]) -> dict[str, tuple[str, ...]]:
    """Return the keys in which experiments differ, each with the values of all."""
    tables = [flat(experiment) for experiment in experiments]
    keys = dict.fromkeys(key for table in tables for key in table)
    found = {key: tuple(table.get(key, _NOT_GIVEN) for table in tables) for key in keys}
    return {key: values for key, values in found.items() if len(set(values)) > 1}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
