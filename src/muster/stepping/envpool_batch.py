"""An EnvPool as Gymnasium's `VectorEnv`, whichever of the two interfaces its version has."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from typing import Any

from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from muster.simulators.lookup import ENVPOOL


class EnvPoolBatch(VectorEnv[Any, Any, Any]):
    """A pool, made anew for other seeds: it takes them only when it is made."""

    def __init__(self, name: str, num_envs: int, seeds: Sequence[int], options: dict[str, Any]) -> None:
        self._name, self._options = name, options
        self.num_envs = num_envs
        self._pool = self._make(seeds)
        self._unused_seeds: list[int] | None = list(seeds)
        self.render_mode = options.get("render_mode")
        self.metadata = {**self._pool.metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}
        self.single_observation_space = self._pool.observation_space
        self.single_action_space = self._pool.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin all episodes; with a list of seeds, each with its own."""
        if seed is not None and list(seed) != self._unused_seeds:
            self._pool.close()
            self._pool = self._make(seed)
        self._unused_seeds = None
        observations, infos = self._pool.reset()
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all simulators."""
        observations, rewards, terminated, truncated, infos = self._pool.step(actions)
        return observations, rewards, terminated, truncated, infos

    def render(self) -> Any:
        """Draw the first simulator."""
        return self._pool.render()

    def close_extras(self, **kwargs: Any) -> None:
        """Close the pool."""
        self._pool.close()

    def _make(self, seeds: Sequence[int]) -> Any:
        # It warns that the bounds of its spaces are rounded to float32, which changes nothing for its user.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*precision lowered.*")
            pool = importlib.import_module(ENVPOOL).make(
                self._name, env_type="gymnasium", num_envs=self.num_envs, env_seed=list(seeds), **self._options
            )
            # Its spaces are made when they are asked for.
            assert pool.observation_space is not None and pool.action_space is not None
        return pool
