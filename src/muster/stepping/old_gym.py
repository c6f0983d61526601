"""Simulators with the interface of the old Gym, as Gymnasium simulators.

Old: `step` returns four values, `reset` an observation alone, and `seed` is a method. All of it translates
without loss but one thing: whether an episode was cut by a time limit, which the old Gym tells in
`info["TimeLimit.truncated"]`.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from muster.stepping.building import takes

_OLD, _NEW = 4, 5
_OF_RESET = 2

WITHOUT_SEED = "reset takes no seed"
WITHOUT_INFO = "reset returns an observation alone"
FOUR_VALUES = "step returns four values: only info['TimeLimit.truncated'] tells a time limit from an end"
WAYS = {
    WITHOUT_SEED: "def reset(self, *, seed=None, options=None), which calls super().reset(seed=seed)",
    WITHOUT_INFO: "return observation, info",
    FOUR_VALUES: "return observation, reward, terminated, truncated, info",
}
"""What was the old Gym's way and is adapted here, and how Gymnasium has it."""


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
        self.seen: set[str] = set() if takes(env.reset, "seed") else {WITHOUT_SEED}
        """Which of the old ways the simulator was seen to have."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint, also of a version that did not note the old ways."""
        self.__dict__.update({"seen": set(), **state})

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Seed the simulator in the way that it has, if any, and begin an episode."""
        super().reset(seed=seed)
        arguments: dict[str, Any] = {}
        if takes(self.env.reset, "seed"):
            arguments["seed"] = seed
        elif seed is not None and callable(getattr(self.env, "seed", None)):
            self.env.seed(seed)
        return _with_info(self.env.reset(**arguments), self.seen)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Tell a time limit from an end by what `info` says of it."""
        result = self.env.step(action)
        if not isinstance(result, tuple) or len(result) not in (_OLD, _NEW):
            raise TypeError(
                f"step returned {_counted(result)}, expected five: "
                "observation, reward, terminated, truncated, info"
            )
        return result if len(result) == _NEW else _as_five(result, self.seen)

    def render(self) -> Any:
        """Draw as the simulator does."""
        if self.render_mode is None and takes(self.env.render, "mode"):
            return self.env.render(mode="rgb_array")
        return self.env.render()

    def close(self) -> None:
        """Close the simulator, if it can be."""
        if callable(getattr(self.env, "close", None)):
            self.env.close()


class OldReturnsWrapper(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A `gymnasium.Env` that may return what the old Gym's did."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.seen: set[str] = set()
        """Which of the old ways the simulator was seen to have."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; an observation alone gets an empty `info`."""
        arguments = {"options": options} if options is not None else {}
        return _with_info(self.env.reset(seed=seed, **arguments), self.seen)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action; four values become five, any other number is left to whoever judges it."""
        result: Any = self.env.step(action)
        if not isinstance(result, tuple) or len(result) != _OLD:
            return result  # type: ignore[no-any-return]
        return _as_five(result, self.seen)


def with_new_returns(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Return a simulator that returns what Gymnasium's must, beneath all wrappers that it came with.

    One whose source shows that it does stays as it is, and costs nothing.
    """
    if not isinstance(env, gymnasium.Wrapper):
        return OldReturnsWrapper(env) if _may_return_old(env) else env
    innermost = env
    while isinstance(innermost.env, gymnasium.Wrapper):
        innermost = innermost.env
    if _may_return_old(innermost.env):
        innermost.env = OldReturnsWrapper(innermost.env)
    return env


def _may_return_old(env: gymnasium.Env[Any, Any]) -> bool:
    return _returned(env, "step") != {_NEW} or _returned(env, "reset") != {_OF_RESET}


def adapted_ways(env: gymnasium.Env[Any, Any]) -> list[str]:
    """Return which of the old ways a simulator that has been stepped was seen to have."""
    seen: set[str] = set()
    layer: Any = env
    while layer is not None:
        if isinstance(layer, OldGymAdapter | OldReturnsWrapper):
            seen |= layer.seen
        layer = getattr(layer, "env", None)
    return [way for way in WAYS if way in seen]


def _returned(env: gymnasium.Env[Any, Any], method: str) -> set[int | None]:
    """Return the numbers of values that a method returns by its source; None for what cannot be told."""
    try:
        source = textwrap.dedent(inspect.getsource(getattr(type(env), method)))
        [definition] = ast.parse(source).body
    except (OSError, TypeError, ValueError, SyntaxError):
        return {None}
    values = [node.value for node in ast.walk(definition) if isinstance(node, ast.Return)]
    return {
        len(value.elts)
        if isinstance(value, ast.Tuple) and not any(isinstance(part, ast.Starred) for part in value.elts)
        else None
        for value in values
    }


def _with_info(result: Any, seen: set[str]) -> tuple[Any, dict[str, Any]]:
    """Return what `reset` gave as observation and info: itself, if it is these already."""
    if isinstance(result, tuple) and len(result) == _OF_RESET and isinstance(result[1], dict):
        return result
    seen.add(WITHOUT_INFO)
    return result, {}


def _as_five(result: tuple[Any, ...], seen: set[str]) -> tuple[Any, Any, bool, bool, Any]:
    """Tell a time limit from an end by what `info` says of it."""
    seen.add(FOUR_VALUES)
    observation, reward, done, info = result
    truncated = bool(done and info.get("TimeLimit.truncated", False))
    return observation, reward, bool(done) and not truncated, truncated, info


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
