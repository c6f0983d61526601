"""The one place that chooses between the engines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from muster.engines.engine import Plan, Request
from muster.errors import InputError, Problem
from muster.experiment import LoadedExperiment
from muster.extras import how_to_install


def make_plan(request: Request) -> Plan:
    """Let the experiment's engine settle how it will train.

    Raises:
        ExperimentError: with every problem that the engine finds.
        InputError: if the engine is not installed.
    """
    if request.loaded.experiment.algorithm.engine == "builtin":
        from muster.engines.builtin.plan import make_builtin_plan

        return make_builtin_plan(request)
    with _rllib_needed(request.loaded):
        from muster.engines.rllib.plan import make_rllib_plan
    return make_rllib_plan(request)


def problems_without_simulator(loaded: LoadedExperiment) -> list[Problem]:
    """Return what the experiment's engine finds wrong with keys that the schema leaves to it.

    Raises:
        InputError: if the engine is not installed.
    """
    if loaded.experiment.algorithm.engine == "builtin":
        return []
    with _rllib_needed(loaded):
        from muster.engines.rllib import plan
    return plan.problems_without_simulator(loaded)


def with_engine_defaults(loaded: LoadedExperiment) -> LoadedExperiment:
    """Return the experiment with the defaults of its engine.

    Raises:
        InputError: if the engine is not installed.
    """
    if loaded.experiment.algorithm.engine == "builtin":
        return loaded
    with _rllib_needed(loaded):
        from muster.engines.rllib import plan
    return plan.with_defaults(loaded)


def own_hyperparameters(loaded: LoadedExperiment) -> dict[str, Any]:
    """Return the keys that the experiment's algorithm takes besides those of the schema, with their defaults.

    Raises:
        InputError: if the engine is not installed.
    """
    if loaded.experiment.algorithm.engine == "builtin":
        return {}
    with _rllib_needed(loaded):
        from muster.engines.rllib import plan
    return plan.own_hyperparameters(loaded)


@contextmanager
def _rllib_needed(loaded: LoadedExperiment) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(
            f"{loaded.experiment.algorithm.name} with engine rllib needs an extra ({error})"
            + how_to_install("rllib")
        ) from None
