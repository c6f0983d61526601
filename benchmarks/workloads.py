"""The simulators that throughput is measured on; Gymnasium and NumPy alone, so that every peer can import it."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "ratio"))

BURN_SECONDS = 1e-3
HEAVY_EVERY = 100
HEAVY_SECONDS = 50e-3
RATIO_SIZES = (5, 49, 49, 49, 49)
WIDE_SIZE = 100
WIDE_LENGTH = 200


class Burn(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A simulator that computes for a time with every step."""

    def seconds(self) -> float:
        """How long this step computes."""
        return BURN_SECONDS

    def step(self, action: Any) -> Any:
        """Step, and compute; time that the process did not have a CPU does not count."""
        end = time.thread_time() + self.seconds()
        while time.thread_time() < end:
            pass
        return super().step(action)


class HeavyTail(Burn):
    """One step in every hundred, nobody knows which, takes a hundred times as long as the others."""

    _step = _heavy = 0

    def seconds(self) -> float:
        """How long this step computes: mostly half a millisecond, seldom much."""
        if self._step % HEAVY_EVERY == 0:
            self._heavy = self._step + int(self.unwrapped.np_random.integers(HEAVY_EVERY))
        self._step += 1
        return HEAVY_SECONDS if self._step - 1 == self._heavy else BURN_SECONDS / 2


class Wide(gymnasium.Env[Any, Any]):
    """A hundred numbers to look at, one of eight actions to take: the one that the largest of eight sums names."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (WIDE_SIZE,), np.float32)
    action_space = gymnasium.spaces.Discrete(8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self._time = 0
        return self._look(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Reward the right action, and show the next numbers."""
        reward = float(self._best == int(action))
        self._time += 1
        return self._look(), reward, False, self._time >= WIDE_LENGTH, {}

    def _look(self) -> Any:
        seen = self.np_random.standard_normal(WIDE_SIZE, dtype=np.float32)
        self._best = int(seen[:96].reshape(8, 12).sum(axis=1).argmax())
        return seen


class Sleeping(gymnasium.Env[Any, Any]):
    """Sleeps a while in every step, as one that waits for another machine would; episodes of a hundred steps."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (8,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, seconds: float = 1e-3) -> None:
        self._seconds = seconds
        self._time = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self._time = 0
        return self._look(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Sleep, and show the next numbers."""
        if self._seconds:
            time.sleep(self._seconds)
        self._time += 1
        return self._look(), 1.0, False, self._time >= 100, {}

    def _look(self) -> Any:
        return self.np_random.uniform(-1, 1, 8).astype(np.float32)


def _limited(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    return gymnasium.wrappers.TimeLimit(env, 500)


def make(name: str) -> gymnasium.Env[Any, Any]:
    """Return a workload's simulator."""
    if name == "cartpole":
        return gymnasium.make("CartPole-v1", disable_env_checker=True)
    if name == "pendulum":
        return gymnasium.make("Pendulum-v1", disable_env_checker=True)
    if name == "burn":
        return _limited(Burn(CartPoleEnv()))
    if name == "heavy":
        return _limited(HeavyTail(CartPoleEnv()))
    if name == "wide":
        return Wide()
    from ratio_env import RatioEnv

    return RatioEnv({"target": 1 / 6.931})


def burn() -> gymnasium.Env[Any, Any]:
    """Return the simulator with a millisecond of computing in each step."""
    return make("burn")


def heavy() -> gymnasium.Env[Any, Any]:
    """Return the simulator whose steps are seldom long."""
    return make("heavy")


def wide() -> gymnasium.Env[Any, Any]:
    """Return the simulator with a hundred numbers to look at."""
    return make("wide")
