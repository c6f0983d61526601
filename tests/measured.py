"""A simulator that reports numbers of its own, and whose difficulty can be scheduled."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv, VectorEnv

from tests.toys import Guess


class Metered(Guess):
    """Its step costs what its action and its price are; the price can be changed, and its parts are counted."""

    def __init__(self, price: float = 1.0, choices: int = 3, length: int = 10, seldom: bool = False) -> None:
        super().__init__(choices, length)
        self.price, self.seldom = price, seldom
        self.told = 0

    def set_price(self, price: float) -> None:
        self.price = price
        self.told += 1

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        shown, reward, terminated, truncated, _ = super().step(action)
        info: dict[str, Any] = {"cost": float(action) * self.price, "plant": {"price": np.float32(self.price)}}
        if not self.seldom or terminated:
            info |= {"steps": self.steps, "told": self.told}
        return shown, reward, terminated, truncated, {**info, "name": "text", "many": np.zeros(3)}


def metered(num_envs: int, mode: str = "Disabled", **config: Any) -> VectorEnv[Any, Any, Any]:
    """Make a batch of them."""
    made = [lambda: Metered(**config)] * num_envs
    return SyncVectorEnv(made, autoreset_mode=getattr(gymnasium.vector.AutoresetMode, _MODES[mode]))


_MODES = {"Disabled": "DISABLED", "NextStep": "NEXT_STEP", "SameStep": "SAME_STEP"}


class Constant(gymnasium.Env[Any, Any]):
    """Reward and one entry never change; float64, and one entry is a rounding error out of bounds."""

    observation_space = spaces.Box(0, 1, (3,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._seen(), {"action_mask": np.array([1, 1, 0], np.int8)}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        info = {"action_mask": np.array([1, 1, 0], np.int8), "cost": 3.0}
        return self._seen(), 2.0, False, self.steps == 20, info

    def _seen(self) -> Any:
        return np.array([0.5, self.np_random.random(), 1.000001])


def constant_price(observation: Any) -> int:
    """A rule: name what is shown."""
    return int(observation)


class Alternating:
    """A rule with a memory of its episode."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, observation: Any, info: Any) -> int:
        self.count += 1
        assert self.count <= 10, "an object for each episode"
        return self.count % 3


def broken_rule(observation: Any) -> int:
    """A rule that fails."""
    raise KeyError("no such valve")


def one_too_many(observation: Any) -> int:
    """A rule whose action is not in the space."""
    return 3
