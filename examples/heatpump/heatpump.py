"""A house with underfloor heating, a heat pump, and an electricity price that changes every hour."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

AIR, FLOOR = 2.0, 8.0  # kWh/K: heat stored by the room air with its furniture, and by the heavy floor
LOSS, CONTACT = 0.15, 1.5  # kW/K: from the room to the outside, and from the floor to the room
STAGES = np.linspace(0.0, 2.5, 6)  # kW: electricity drawn at each stage of the compressor
LOW, HIGH = 20.0, 22.0  # °C: comfort band
DISCOMFORT = 0.5  # euros per degree outside the band and hour
AHEAD = 12  # hours for which the price is known, as on a day-ahead market


class HeatPump(gym.Env[np.ndarray, int]):
    """Each hour, choose the stage of the heat pump; pay for electricity and for discomfort."""

    def __init__(self, days: int = 7) -> None:
        self.hours = 24 * days
        self.action_space = spaces.Discrete(len(STAGES))
        self.observation_space = spaces.Box(-100.0, 100.0, (4 + AHEAD,))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.outdoor = weather(self.np_random, self.hours + AHEAD)
        self.price = tariff(self.np_random, self.hours + AHEAD)
        self.hour = 0
        self.air = self.np_random.uniform(20.0, 21.0)
        self.floor = self.air + LOSS / CONTACT * (self.air - self.outdoor[0])
        return self.observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        power, outdoor = STAGES[action], self.outdoor[self.hour]
        for _ in range(4):  # quarters of an hour
            water = self.floor + 3.0 + 3.0 * power  # °C: more power needs hotter water
            cop = 0.45 * (water + 273.15) / max(water - outdoor, 15.0)  # 45 % of the Carnot limit
            into_room = CONTACT * (self.floor - self.air)
            self.floor += 0.25 * (cop * power - into_room) / FLOOR
            self.air += 0.25 * (into_room - LOSS * (self.air - outdoor)) / AIR
        cost = self.price[self.hour] * power
        degrees = max(LOW - self.air, self.air - HIGH, 0.0)
        self.hour += 1
        info = {"cost": cost, "discomfort": degrees, "electricity": power}
        return self.observe(), -(cost + DISCOMFORT * degrees), False, self.hour == self.hours, info

    def observe(self) -> np.ndarray:
        ahead = slice(self.hour, self.hour + AHEAD)
        state = [self.air, self.floor, self.outdoor[self.hour], self.outdoor[ahead].mean()]
        return np.array([*state, *self.price[ahead]], np.float32)


def weather(random: np.random.Generator, hours: int) -> np.ndarray:
    """Return outdoor temperatures: a daily wave around a mean that drifts."""
    wave = 4.0 * np.sin(2 * np.pi * (np.arange(hours) - 9) / 24)
    drift = np.cumsum(random.normal(0.0, 0.3, hours))
    return np.asarray(random.uniform(-5.0, 8.0) + drift + wave)


def tariff(random: np.random.Generator, hours: int) -> np.ndarray:
    """Return prices per kWh: low at night and noon, high in the morning and evening, each day differently."""
    hour, price = np.arange(hours), np.full(hours, 0.25)
    for centre, width, height in ((3, 3.0, -0.10), (8, 2.0, 0.10), (13, 2.5, -0.12), (19, 2.5, 0.25)):
        heights = height * random.uniform(0.3, 1.3, hours // 24 + 1)
        price += heights[hour // 24] * np.exp(-(((hour % 24 - centre) / width) ** 2))
    return price


def rule(observation: np.ndarray) -> int:
    """Heat as a thermostat does: the further the room is below its set point, the higher the stage."""
    return stage(5.0 * (20.5 - observation[0]))


def price_rule(observation: np.ndarray) -> int:
    """Heat by the weather forecast, and more while electricity is cheaper than in the next twelve hours."""
    air, forecast, price = observation[0], observation[3], observation[4:]
    return stage(0.1 * (20.0 - forecast) + 1.5 * (20.2 - air) + 10.0 * (price.mean() - price[0]))


def stage(wanted: float) -> int:
    """Return the nearest stage that there is."""
    return int(np.clip(np.rint(wanted), 0, len(STAGES) - 1))
