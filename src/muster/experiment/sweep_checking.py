"""What is wrong with a sweep: keys and values that the experiment refuses, settings that exclude each other."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from muster.experiment.schema import ALGORITHM_TAGS, Experiment
from muster.experiment.sweep import Parameter, SweepSection, flat_parameters

UNTYPED = ("env.config.", "algorithm.rllib.")
_INTEGER_ERRORS = ("int_from_float", "int_type")
_NOT_WHILE_TRAINING = ("algorithm.name", "algorithm.engine")


def readable_part(given: Any) -> tuple[SweepSection, bool]:
    """Return a sweep without what is wrong in itself, so that the rest can be checked, and whether that is all."""
    try:
        return SweepSection.model_validate(given), True
    except ValidationError as error:
        if not isinstance(given, dict):
            return SweepSection(), False
        parameters = flat_parameters(given.get("parameters", {}))
        wrong = {detail["loc"][1] for detail in error.errors() if len(detail["loc"]) > 1}
        rest = {key: value for key, value in parameters.items() if key not in wrong} if wrong else {}
        return SweepSection.model_validate({"parameters": rest}), False


def conflicts(section: SweepSection) -> Iterator[tuple[str, str, str]]:
    """Yield the settings of a sweep that cannot be met: key, what is wrong, and what to do."""
    if not section.parameters:
        yield "parameters", "nothing varies", 'for example: "algorithm.lr" = { loguniform = [1e-5, 1e-2] }'
    elif section.num_draws > 1 and len(section.grids) == len(section.parameters) and section.scheduler != "pbt":
        times = f"{section.num_draws}, but with grids alone each point would be tried so often, always the same"
        yield "trials", times, "leave it out; or try several seeds: seed = { grid = [0, 1, 2] }"
    if section.search == "optuna" and section.scheduler == "pbt":
        yield "search", "'optuna' does not go with scheduler = 'pbt', which finds values itself", "leave it out"
    if section.search == "optuna" and section.grids:
        keys = ", ".join(section.grids)
        yield "search", f"'optuna' draws values, but {keys} has a grid", "use choice instead of grid"
    if section.scheduler == "pbt" and section.concurrent:
        yield "concurrent", "with scheduler = 'pbt', all trials take turns on the CPUs there are", "leave it out"
    for key in section.parameters:
        if key == "name" or key.partition(".")[0] in ("sweep", "clusters"):
            yield f"parameters.{key}", "cannot vary over trials", ""
        elif section.scheduler == "pbt" and (key in _NOT_WHILE_TRAINING or not key.startswith("algorithm.")):
            yield (
                f"parameters.{key}",
                "scheduler = 'pbt' changes values while a trial trains, and this one cannot change then",
                "use keys of [algorithm], or scheduler = 'asha'",
            )


def refusals(table: dict[str, Any], section: SweepSection) -> Iterator[tuple[str, ErrorDetails, dict[str, Any]]]:
    """Yield the parameters whose key or values an experiment refuses: key, error, and the table with the value."""
    for key, parameter in section.parameters.items():
        for value in parameter.values:
            changed = with_value(table, key, value)
            for detail in _new_errors(table, changed, key):
                if not (detail["type"] in _INTEGER_ERRORS and parameter.bounds) or not float(value).is_integer():
                    yield key, detail, changed


def is_whole(table: dict[str, Any], key: str, parameter: Parameter) -> bool:
    """Whether a range is one of whole numbers: if the key takes no others, or, untyped, if both ends are whole."""
    assert parameter.bounds is not None
    if key.startswith(UNTYPED):
        return all(isinstance(end, int) for end in parameter.bounds)
    half = int(parameter.bounds[0]) + 0.5
    errors = _new_errors(table, with_value(table, key, half), key)
    return any(detail["type"] in _INTEGER_ERRORS for detail in errors)


def with_value(table: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """Return an experiment's table without its sweep, in which one dotted key has another value."""
    changed = copy.deepcopy({name: inner for name, inner in table.items() if name != "sweep"})
    inner: Any = changed
    *sections, name = key.split(".")
    for section in sections:
        if not isinstance(inner.get(section), dict):
            inner[section] = {}
        inner = inner[section]
    inner[name] = value
    return changed


def _new_errors(table: dict[str, Any], changed: dict[str, Any], key: str) -> list[ErrorDetails]:
    """Return what is wrong at a key in the changed table and was not wrong before."""
    before = [(detail["loc"], detail["type"]) for detail in _errors(with_value(table, "seed", 0))]
    return [
        detail
        for detail in _errors(changed)
        if (detail["loc"], detail["type"]) not in before and _overlap(dotted(detail), key)
    ]


def _errors(table: dict[str, Any]) -> list[ErrorDetails]:
    try:
        Experiment.model_validate(table)
    except ValidationError as error:
        return error.errors()
    return []


def dotted(detail: ErrorDetails) -> str:
    """Return the key that an error is about, without what pydantic adds to tell types apart."""
    loc = [str(part) for part in detail["loc"]]
    if loc[:1] == ["algorithm"] and loc[1:2] and loc[1] in ALGORITHM_TAGS:
        loc.pop(1)
    return ".".join(part for part in loc if not part.startswith(("constrained-", "literal[")))


def _overlap(one: str, other: str) -> bool:
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")
