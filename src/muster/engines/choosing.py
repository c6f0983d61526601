"""The one place that chooses between the engines."""

from __future__ import annotations

from muster.engines.engine import Plan, Request
from muster.errors import InputError


def make_plan(request: Request) -> Plan:
    """Let the experiment's engine settle how it will train.

    Raises:
        ExperimentError: with every problem that the engine finds.
        InputError: if the engine is not installed.
    """
    algorithm = request.loaded.experiment.algorithm
    if algorithm.engine == "builtin":
        from muster.engines.builtin.planning import make_builtin_plan

        return make_builtin_plan(request)
    try:
        from muster.engines.rllib.planning import make_rllib_plan
    except ModuleNotFoundError as error:
        raise InputError(
            f"{algorithm.name} with engine rllib needs an extra ({error})\n    pip install 'muster-rl[rllib]'"
        ) from None
    return make_rllib_plan(request)
