"""The wrappers of an experiment, put around a simulator or around a batch of simulators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from muster.errors import ExperimentError, Problem
from muster.simulators.lookup import import_attribute


def wrapped(env: Any, wrappers: Sequence[str | dict[str, Any]]) -> Any:
    """Return a simulator, or a batch, in its wrappers, the first innermost.

    Raises:
        ExperimentError: if there is no such wrapper, or it is one for the other kind.
        Exception: whatever a wrapper's own code raises.
    """
    for wrapper in wrappers:
        entry = {"class": wrapper} if isinstance(wrapper, str) else dict(wrapper)
        name = str(entry.pop("class", ""))
        make = import_attribute(name, "env.wrappers")
        if problem := _misfit(name, make, env):
            raise ExperimentError(name, [problem])
        env = make(env, **entry)
    return env


def _misfit(name: str, make: Any, env: Any) -> Problem | None:
    """Return what is wrong if a wrapper is one of Gymnasium's for something else."""
    from gymnasium import Wrapper
    from gymnasium.vector import VectorEnv, VectorWrapper

    if not isinstance(make, type):
        return None
    if isinstance(env, VectorEnv) and issubclass(make, Wrapper):
        hint = "gymnasium.wrappers.vector has wrappers for a batch"
        return Problem("env.wrappers", f"{name} is for a single simulator, and this one is batched", hint)
    if not isinstance(env, VectorEnv) and issubclass(make, VectorWrapper):
        hint = "gymnasium.wrappers has wrappers for a single simulator"
        return Problem("env.wrappers", f"{name} is for a batch, and this simulator is not batched", hint)
    return None
