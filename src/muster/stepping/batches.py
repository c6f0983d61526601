"""Building, seeding and feeding a batch of simulators, and one simulator of it seen on its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from muster.errors import ExperimentError, Problem
from muster.simulators.lookup import (
    envpool_id,
    extend_search_path,
    import_attribute,
    import_modules,
    is_gymnasium_id,
    require_in_envpool,
    require_registered,
)
from muster.simulators.placeholders import filled_in
from muster.simulators.simulator import Simulator
from muster.stepping.building import takes
from muster.stepping.envpool_batch import EnvPoolBatch
from muster.stepping.threads import announce_cpus
from muster.stepping.wrapping import wrapped

AnyBatch = VectorEnv[Any, Any, Any]
_PLAIN = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
_SEEDED = (gymnasium.vector.SyncVectorEnv, gymnasium.vector.AsyncVectorEnv, EnvPoolBatch)


def build_batch(
    simulator: Simulator, num_envs: int, index: int, seeds: Sequence[int], render_mode: str | None = None
) -> AnyBatch:
    """Build a batch; `index` is the number of its first simulator, `seeds` are those that it is to begin with.

    Raises:
        ExperimentError: if there is no such batch, or it is none.
        Exception: whatever its own code raises.
    """
    extend_search_path(simulator.paths)
    import_modules(simulator.imports)
    announce_cpus(simulator.cpus)
    config = filled_in(simulator.configuration, index, Path(simulator.folder).absolute() / f"{index:04d}")
    if (name := envpool_id(simulator.id)) is not None:
        batch: Any = _envpool(simulator, name, num_envs, seeds, config, render_mode)
    elif is_gymnasium_id(simulator.id):
        batch = _registered(simulator, num_envs, config, render_mode)
    else:
        batch = _imported(simulator, num_envs, config, render_mode)
    batch = wrapped(batch, simulator.wrappers)
    if not isinstance(batch, VectorEnv) or batch.num_envs != num_envs:
        raise ExperimentError(simulator.id, [_no_batch(batch, num_envs)])
    return batch


def _envpool(
    simulator: Simulator,
    name: str,
    num_envs: int,
    seeds: Sequence[int],
    config: dict[str, Any],
    render_mode: str | None,
) -> EnvPoolBatch:
    require_in_envpool(simulator.id)
    if config.get("batch_size", num_envs) not in (0, num_envs):
        message = f"{config['batch_size']}: EnvPool would return {config['batch_size']} simulators of {num_envs}"
        hint = "leave it out: all simulators of a group step together; resources.envs_per_group says how many"
        raise ExperimentError(simulator.id, [Problem("env.config.batch_size", message, hint)])
    options = {"num_threads": simulator.cpus or 1, **_options(simulator, render_mode), **config}
    return EnvPoolBatch(name, num_envs, seeds, options)


def _registered(simulator: Simulator, num_envs: int, config: dict[str, Any], render_mode: str | None) -> Any:
    """Build a registered batch; one that Gymnasium makes of single simulators leaves it to us to reset them.

    Each of its episodes then has the seed that it would have in a single simulator.
    """
    require_registered(simulator.id)
    spec = gymnasium.spec(simulator.id.rpartition(":")[2])
    options = {**_options(simulator, render_mode), **config}
    mode = options.get("vectorization_mode", spec.kwargs.get("vectorization_mode"))
    if mode in ("sync", "async") or (mode is None and spec.vector_entry_point is None):
        given = dict(options.get("vector_kwargs", {}))
        given["autoreset_mode"] = AutoresetMode(given.get("autoreset_mode", AutoresetMode.DISABLED))
        options = {"disable_env_checker": True, **options, "vector_kwargs": given}
    return gymnasium.make_vec(simulator.id, num_envs=num_envs, **options)


def _imported(simulator: Simulator, num_envs: int, config: dict[str, Any], render_mode: str | None) -> Any:
    maker = import_attribute(simulator.id, "env.id")
    if not takes(maker, "num_envs"):
        hint = "take num_envs as a keyword, and return a gymnasium.vector.VectorEnv of that many"
        message = f"{simulator.id} does not take num_envs, and env.vectorized = true says that it makes a batch"
        raise ExperimentError(simulator.id, [Problem("env.id", message, hint)])
    options = _options(simulator, render_mode)
    if "max_episode_steps" in options and not takes(maker, "max_episode_steps"):
        message = f"{simulator.max_episode_steps}: the batch {simulator.id} does not take it"
        hint = "take max_episode_steps as a keyword, and truncate episodes there"
        raise ExperimentError(simulator.id, [Problem("env.max_episode_steps", message, hint)])
    if not takes(maker, "render_mode"):
        options.pop("render_mode", None)
    return maker(num_envs=num_envs, **options, **config)


def _options(simulator: Simulator, render_mode: str | None) -> dict[str, Any]:
    given = {"max_episode_steps": simulator.max_episode_steps, "render_mode": render_mode}
    return {name: value for name, value in given.items() if value}


def _no_batch(found: Any, num_envs: int) -> Problem:
    """Say that something is no batch, or not of the size that was asked for."""
    expected = f"expected a gymnasium.vector.VectorEnv of {num_envs}"
    if isinstance(found, VectorEnv):
        hint = "make as many as num_envs says"
        return Problem("env.id", f"gives a batch of {found.num_envs}, {expected}", hint)
    hint = "return a VectorEnv; if it is a single simulator that takes num_envs, set env.vectorized = false"
    return Problem("env.id", f"gives a {type(found).__name__}, {expected}", hint)


def reset_batch(batch: AnyBatch, seeds: Sequence[int | None], which: Any = None) -> Any:
    """Begin episodes, of all or of some simulators: each with its seed, as far as the batch takes them."""
    options = None if which is None else {"reset_mask": np.array(which)}
    if seeds_each(batch):
        each: Any = list(seeds)
        return batch.reset(seed=each, options=options)
    return batch.reset(seed=seeds[0] if which is None else None, options=options)


def seeds_each(batch: AnyBatch) -> bool:
    """Return whether a batch takes a seed for each of its simulators; any other takes one for all."""
    return isinstance(batch.unwrapped, _SEEDED)


def autoreset_mode(batch: AnyBatch) -> AutoresetMode:
    """Return how a batch begins the next episodes; in the next step, if it does not say.

    Gymnasium's own batches keep their metadata in that of their simulators' class, where another batch of the same
    simulator may change it.
    """
    own = getattr(batch.unwrapped, "autoreset_mode", None)
    return AutoresetMode(own or batch.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))


def close_batch(batch: AnyBatch, *, has_failed: bool) -> None:
    """Close a batch; processes of one that has failed are ended, since they may never answer."""
    own = batch.unwrapped
    if not has_failed or not isinstance(own, gymnasium.vector.AsyncVectorEnv):
        batch.close()
        return
    for process in own.processes:
        process.kill()
    # It asks its processes first for what they have not answered yet.
    with suppress(EOFError, OSError):
        batch.close(terminate=True)
    own.closed = True
    for process in own.processes:
        process.join()


def batched_actions(batch: AnyBatch, actions: Sequence[Any]) -> Any:
    """Return actions as the batch takes them."""
    space = batch.single_action_space
    if isinstance(space, _PLAIN):
        return np.asarray(actions, space.dtype)
    return concatenate(space, actions, create_empty_array(space, len(actions)))


class OneOfBatch(gymnasium.Env[Any, Any]):
    """A batch of one as a single simulator, for whatever needs one: evaluation, `check`, replay, RLlib."""

    def __init__(self, simulator: Simulator, render_mode: str | None, index: int) -> None:
        self.batch = build_batch(simulator, 1, index, [0], render_mode)
        self.render_mode = self.batch.render_mode
        self.observation_space = self.batch.single_observation_space
        self.action_space = self.batch.single_action_space
        self.metadata = dict(self.batch.metadata)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        if seed is None:
            observations, infos = self.batch.reset()
        else:
            observations, infos = reset_batch(self.batch, [seed])
        return self._first(observations), _of_first(infos)

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step the one simulator; its last observation is that of the episode that ended."""
        observations, rewards, terminated, truncated, infos = self.batch.step(
            batched_actions(self.batch, [action])
        )
        if (terminated[0] or truncated[0]) and autoreset_mode(self.batch) is AutoresetMode.SAME_STEP:
            observation = final_observations(self.batch, infos, [0])[0]
            infos = final_infos(infos)
        else:
            observation = self._first(observations)
        return observation, rewards[0], terminated[0], truncated[0], _of_first(infos)

    def render(self) -> Any:
        """Draw the one simulator."""
        frames: Any = self.batch.render()
        is_list = isinstance(frames, tuple | list) or (isinstance(frames, np.ndarray) and frames.ndim > 3)
        return frames[0] if is_list else frames

    def close(self) -> None:
        """Close the batch."""
        self.batch.close()

    def _first(self, observations: Any) -> Any:
        return next(iter(_single_values(self.batch, observations)))


def final_observations(batch: AnyBatch, infos: dict[str, Any], which: Sequence[int]) -> dict[int, Any]:
    """Return the last observations of episodes that ended, where the batch began the next in the same step.

    Raises:
        ValueError: if `infos` does not have them.
    """
    found = infos.get("final_obs", infos.get("final_observation"))
    if found is None:
        raise ValueError(
            "infos has no 'final_obs', though episodes have ended; expected with AutoresetMode.SAME_STEP"
        )
    if isinstance(found, dict | tuple):
        found = list(iterate(batch.observation_space, found))
    return {i: found[i] for i in which}


def final_infos(infos: dict[str, Any]) -> Any:
    """Return what `infos` says of the last steps of episodes, where the batch began the next in the same step."""
    return infos.get("final_info", infos)


def _single_values(batch: AnyBatch, observations: Any) -> Iterable[Any]:
    """Return the observations of the batch's simulators, one after another."""
    if isinstance(batch.single_observation_space, _PLAIN):
        return observations  # type: ignore[no-any-return]
    return iterate(batch.observation_space, observations)


def _of_first(infos: dict[str, Any]) -> dict[str, Any]:
    """Return what `infos` says of the first simulator; `_name` says of whom it has a `name`."""
    first: dict[str, Any] = {}
    for key, value in infos.items():
        if key.startswith("_") or not np.all(infos.get(f"_{key}", True)):
            continue
        if isinstance(value, dict):
            first[key] = _of_first(value)
        elif isinstance(value, np.ndarray | list | tuple) and len(value):
            first[key] = value[0]
    return first
