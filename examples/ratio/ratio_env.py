"""The gear-train problem as an environment: choose four gears so that their ratio comes close to a target."""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

NUM_CHOICES = 49
FEWEST_TEETH = 12
NUM_GEARS = 4

Observation = NDArray[np.int64]


class RatioEnv(gymnasium.Env[Any, Any]):
    """Four steps pick four gears with 12 to 60 teeth; only the last one is rewarded.

    The observation is how many gears are chosen, then the choices so far (0 where there is none yet). With
    v = choice + 12, the reward is -(target - (v3 * v2) / (v1 * v4))^2.
    """

    def __init__(self, env_config: dict[str, Any]) -> None:
        self.target = float(env_config["target"])
        self.observation_space = gymnasium.spaces.MultiDiscrete([NUM_GEARS + 1] + [NUM_CHOICES] * NUM_GEARS)
        self.action_space = gymnasium.spaces.Discrete(NUM_CHOICES)
        self._state = np.zeros(NUM_GEARS + 1, dtype=np.int64)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin with no gear chosen."""
        super().reset(seed=seed)
        self._state[:] = 0
        return self._state, {}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Choose the next gear."""
        self._state[0] += 1
        self._state[self._state[0]] = action
        done = bool(self._state[0] == NUM_GEARS)
        reward = -((self.target - gear_ratio(self._state[1:])) ** 2) if done else 0.0
        return self._state, reward, done, False, {}


def gear_ratio(choices: NDArray[np.int64]) -> float:
    """Return the ratio of four chosen gears."""
    v1, v2, v3, v4 = (int(choice) + FEWEST_TEETH for choice in choices)
    return (v3 * v2) / (v1 * v4)


def best_return(target: float) -> tuple[float, tuple[int, int, int, int]]:
    """Return the best reachable return and the gears (v1, v2, v3, v4) that reach it, by trying all."""
    teeth = range(FEWEST_TEETH, FEWEST_TEETH + NUM_CHOICES)
    pairs = list(combinations_with_replacement(teeth, 2))
    products = np.array([a * b for a, b in pairs])
    errors = (target - products[:, None] / products[None, :]) ** 2
    over, under = np.unravel_index(errors.argmin(), errors.shape)
    (v2, v3), (v1, v4) = pairs[over], pairs[under]
    return -float(errors.min()), (v1, v2, v3, v4)


if __name__ == "__main__":
    best, gears = best_return(1 / 6.931)
    print(f"best return {best:.4g} with gears (v1, v2, v3, v4) = {gears}")
