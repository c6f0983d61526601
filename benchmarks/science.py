"""Two simulators as scientists write them: badly scaled rewards in one, rare ones in the other."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np

Observation = np.ndarray[Any, np.dtype[np.float32]]


class Queue(gymnasium.Env[Observation, np.int64]):
    """Choose how many of eight servers work, while customers arrive in a daily rhythm with sudden crowds.

    The reward is money, thousands a step: waiting customers, wages, a fee for each server that starts, and a
    fine for each customer who finds the waiting room full.
    """

    SERVERS, ROOM, STEPS = 8, 200, 288
    WAITING, WAGE, START, LOST = 20.0, 150.0, 100.0, 500.0

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (5,), np.float32)
    action_space = gymnasium.spaces.Discrete(SERVERS + 1)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Observation, dict[str, Any]]:
        """Begin a day with some customers waiting."""
        super().reset(seed=seed)
        self._step = 0
        self._queue = int(self.np_random.integers(0, 50))
        self._servers = 0
        self._crowd = 1.0
        self._arrived = 0
        return self._observation(), {}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Serve and admit customers for five minutes."""
        servers = int(action)
        cost = self.START * max(0, servers - self._servers) + self.WAGE * servers
        self._servers = servers
        if self._crowd > 1:
            self._crowd = max(1.0, self._crowd * 0.95)
        elif self.np_random.random() < 0.01:
            self._crowd = 4.0
        self._arrived = int(self.np_random.poisson(5.0 * self._crowd * (1 - 0.7 * math.cos(self._phase))))
        self._queue -= min(self._queue, int(self.np_random.poisson(2.0 * servers)))
        admitted = min(self._arrived, self.ROOM - self._queue)
        self._queue += admitted
        cost += self.WAITING * self._queue + self.LOST * (self._arrived - admitted)
        self._step += 1
        return self._observation(), -cost, False, self._step >= self.STEPS, {}

    @property
    def _phase(self) -> float:
        return 2 * math.pi * self._step / self.STEPS

    def _observation(self) -> Observation:
        phase = self._phase
        return np.array(
            [self._queue, self._servers, self._arrived, math.sin(phase), math.cos(phase)], dtype=np.float32
        )


class Building(gymnasium.Env[Observation, Observation]):
    """Heat a house through four winter days with a heat pump; electricity is cheap at night.

    The bill comes once a day, at midnight: 95 of 96 rewards are 0 as long as the rooms are between 20 and 23 °C.
    """

    STEPS_A_DAY, DAYS = 96, 4
    HOURS = 24 / STEPS_A_DAY
    POWER = 4.0
    """Electric, kW."""
    AIR, MASS = 1.5, 12.0
    """Heat capacities, kWh/K."""
    TO_MASS, TO_OUTSIDE = 0.6, 0.15
    """Conductances, kW/K."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (7,), np.float32)
    action_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Observation, dict[str, Any]]:
        """Begin at midnight, in weather of its own."""
        super().reset(seed=seed)
        self._step = 0
        self._air, self._mass = self.np_random.uniform(19, 22), self.np_random.uniform(19, 22)
        self._mean_outside = self.np_random.uniform(-8, 6)
        self._bill = 0.0
        return self._observation(), {}

    def step(self, action: Observation) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Heat for a quarter of an hour."""
        power = self.POWER * float(np.clip(action[0], 0, 1))
        efficiency = 2.5 + 0.06 * self._outside
        to_mass = self.TO_MASS * (self._air - self._mass)
        to_outside = self.TO_OUTSIDE * (self._air - self._outside)
        self._bill += power * self.HOURS * self._price
        self._air += (efficiency * power - to_mass - to_outside) * self.HOURS / self.AIR
        self._mass += to_mass * self.HOURS / self.MASS
        self._step += 1
        reward = -0.5 * (max(0.0, 20 - self._air) + max(0.0, self._air - 23)) * self.HOURS
        if self._step % self.STEPS_A_DAY == 0:
            reward -= self._bill
            self._bill = 0.0
        return self._observation(), reward, False, self._step >= self.STEPS_A_DAY * self.DAYS, {}

    @property
    def _hour(self) -> float:
        return self._step % self.STEPS_A_DAY * self.HOURS

    @property
    def _outside(self) -> float:
        return self._mean_outside + 4 * math.sin(2 * math.pi * (self._hour - 9) / 24)

    @property
    def _price(self) -> float:
        return 0.15 if self._hour < 6 or self._hour >= 22 else 0.40

    def _observation(self) -> Observation:
        phase = 2 * math.pi * self._hour / 24
        state = [self._air, self._mass, self._outside, math.sin(phase), math.cos(phase), self._price, self._bill]
        return np.array(state, dtype=np.float32)
