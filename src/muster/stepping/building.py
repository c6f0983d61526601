"""Build the user's simulator."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.errors import ExperimentError, Problem
from muster.simulators.lookup import (
    extend_search_path,
    import_attribute,
    import_modules,
    is_gymnasium_id,
    require_registered,
)
from muster.simulators.placeholders import filled_in
from muster.simulators.simulator import Simulator
from muster.stepping.threads import announce_cpus
from muster.stepping.wrapping import wrapped

if TYPE_CHECKING:
    import gymnasium


def build(
    simulator: Simulator, render_mode: str | None = None, index: int | None = None
) -> gymnasium.Env[Any, Any]:
    """Build one simulator; no two that live at the same time may have the same index.

    Raises:
        ExperimentError: if there is no such simulator or wrapper.
        Exception: whatever the simulator's own constructor raises.
    """
    import gymnasium

    extend_search_path(simulator.paths)
    import_modules(simulator.imports)
    announce_cpus(simulator.cpus)
    index = simulator.spare_index if index is None else index
    if simulator.is_batched():
        from muster.stepping.batches import OneOfBatch

        return OneOfBatch(simulator, render_mode, index)
    config = filled_in(simulator.configuration, index, Path(simulator.folder).absolute() / f"{index:04d}")
    if is_gymnasium_id(simulator.id):
        env = _build_registered(simulator, render_mode, config)
    else:
        env = _build_imported(simulator, render_mode, config)
    if not isinstance(env, gymnasium.vector.VectorEnv):
        env = wrapped(env, simulator.wrappers)
    if not isinstance(env, gymnasium.Env):
        raise ExperimentError(simulator.id, [_no_simulator(env)])
    return env


def _no_simulator(thing: Any) -> Problem:
    """Say what it is that cannot be trained in."""
    from gymnasium.vector import VectorEnv

    kind = f"gives a {type(thing).__name__}"
    if isinstance(thing, VectorEnv):
        hint = "let it take num_envs as a keyword, and set neither env.config.num_envs nor env.vectorized = false"
        return Problem("env.id", f"{kind}, a batch of {thing.num_envs}; expected a single simulator", hint)
    if _has_several_agents(thing):
        hint = "wrap it as a gymnasium.Env in which one agent acts and the others follow a rule"
        return Problem("env.id", f"{kind} with several agents (PettingZoo); muster trains one agent", hint)
    if hasattr(thing, "action_spec") and hasattr(thing, "observation_spec"):
        hint = (
            'pip install shimmy, and env.wrappers = ["shimmy:DmControlCompatibilityV0"] makes it a gymnasium.Env'
        )
        return Problem("env.id", f"{kind} with the interface of dm_env", hint)
    hint = (
        "derive the simulator from gymnasium.Env, with reset(seed=..., options=...) and a step that returns five "
        "values"
    )
    return Problem("env.id", f"{kind}, expected a gymnasium.Env", hint)


def _has_several_agents(thing: Any) -> bool:
    return hasattr(thing, "possible_agents") or hasattr(thing, "agent_iter")


def _build_registered(
    simulator: Simulator, render_mode: str | None, config: dict[str, Any]
) -> gymnasium.Env[Any, Any]:
    import gymnasium

    from muster.stepping.old_gym import with_new_returns

    require_registered(simulator.id)
    options: dict[str, Any] = {}
    if simulator.max_episode_steps:
        options["max_episode_steps"] = simulator.max_episode_steps
    if render_mode:
        options["render_mode"] = render_mode
    return with_new_returns(gymnasium.make(simulator.id, disable_env_checker=True, **options, **config))


def _build_imported(
    simulator: Simulator, render_mode: str | None, config: dict[str, Any]
) -> gymnasium.Env[Any, Any]:
    import gymnasium

    from muster.stepping.old_gym import OldGymAdapter, is_old, with_new_returns

    maker = import_attribute(simulator.id, "env.id")
    parameters = inspect.signature(maker).parameters
    names = {name for name, p in parameters.items() if p.kind is not p.VAR_KEYWORD} - {"render_mode"}
    arguments: dict[str, Any] = dict(config)
    if len(names) == 1 and (only := names.pop()) in ("config", "env_config"):
        arguments = {only: dict(config)}
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    if render_mode and ("render_mode" in parameters or takes_any):
        arguments["render_mode"] = render_mode
    env: gymnasium.Env[Any, Any] = maker(**arguments)
    if not isinstance(env, gymnasium.vector.VectorEnv) and not _has_several_agents(env) and is_old(env):
        env = OldGymAdapter(env)
    elif isinstance(env, gymnasium.Env):
        env = with_new_returns(env)
    if simulator.max_episode_steps and isinstance(env, gymnasium.Env):
        env = gymnasium.wrappers.TimeLimit(env, simulator.max_episode_steps)
    return env


def takes(function: Any, name: str) -> bool:
    """Return whether a class or function takes a keyword; one whose signature is not known may."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return True
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
