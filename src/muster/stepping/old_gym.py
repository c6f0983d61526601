"""Simulators with the interface of the old Gym, as Gymnasium simulators.

Old: `step` returns four values, `reset` an observation alone, and `seed` is a method. All of it translates
without loss but one thing: whether an episode was cut by a time limit, which the old Gym tells in
`info["TimeLimit.truncated"]`.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from muster.stepping.building import takes

_OLD, _NEW = 4, 5


def is_old(env: Any) -> bool:
    """Whether a simulator has the old interface, as far as can be seen without stepping it."""
    if not (callable(getattr(env, "step", None)) and callable(getattr(env, "reset", None))):
        return False
    if not (hasattr(env, "observation_space") and hasattr(env, "action_space")):
        return False
    return not isinstance(env, gymnasium.Env) or not takes(env.reset, "seed")


class OldGymAdapter(gymnasium.Env[Any, Any]):
    """A simulator with the old interface, seen through the new one.

    Raises:
        TypeError: if one of its spaces has no counterpart in Gymnasium.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self.observation_space = converted(env.observation_space)
        self.action_space = converted(env.action_space)
        self.metadata = dict(getattr(env, "metadata", None) or {})
        self.render_mode = getattr(env, "render_mode", None)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Seed the simulator in the way that it has, if any, and begin an episode."""
        super().reset(seed=seed)
        arguments: dict[str, Any] = {}
        if takes(self.env.reset, "seed"):
            arguments["seed"] = seed
        elif seed is not None and callable(getattr(self.env, "seed", None)):
            self.env.seed(seed)
        result = self.env.reset(**arguments)
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict):
            return result
        return result, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Tell a time limit from an end by what `info` says of it."""
        result = self.env.step(action)
        if not isinstance(result, tuple) or len(result) not in (_OLD, _NEW):
            raise TypeError(
                f"step returned {_counted(result)}, expected five: "
                "observation, reward, terminated, truncated, info"
            )
        if len(result) == _NEW:
            return result
        observation, reward, done, info = result
        truncated = bool(done and info.get("TimeLimit.truncated", False))
        return observation, reward, bool(done) and not truncated, truncated, info

    def render(self) -> Any:
        """Draw as the simulator does."""
        if self.render_mode is None and takes(self.env.render, "mode"):
            return self.env.render(mode="rgb_array")
        return self.env.render()

    def close(self) -> None:
        """Close the simulator, if it can be."""
        if callable(getattr(self.env, "close", None)):
            self.env.close()


def converted(space: Any) -> gymnasium.Space[Any]:
    """Return the Gymnasium space that is like one of the old Gym's, or of a class made in its likeness.

    Raises:
        TypeError: if there is none.
    """
    if isinstance(space, gymnasium.Space):
        return space
    match type(space).__name__:
        case "Box":
            kind = np.dtype(getattr(space, "dtype", None) or np.float32).type
            return spaces.Box(space.low, space.high, tuple(space.shape), kind)
        case "Discrete":
            return spaces.Discrete(int(space.n), start=int(getattr(space, "start", 0)))
        case "MultiDiscrete":
            return spaces.MultiDiscrete(space.nvec)
        case "MultiBinary":
            return spaces.MultiBinary(space.n)
        case "Dict":
            return spaces.Dict({name: converted(part) for name, part in space.spaces.items()})
        case "Tuple":
            return spaces.Tuple([converted(part) for part in space.spaces])
    raise TypeError(
        f"{type(space).__module__}.{type(space).__name__} is no space of Gymnasium's or the old Gym's; "
        "expected one of gymnasium.spaces"
    )


def _counted(result: Any) -> str:
    return f"{len(result)} values" if isinstance(result, tuple) else f"a {type(result).__name__}"
