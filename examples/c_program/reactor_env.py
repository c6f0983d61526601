"""A reactor that a C program simulates, behind a pipe: it sometimes crashes, and sometimes never answers."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

PROGRAM = Path(__file__).with_name("reactor")
TARGET = 350.0
"""Temperature to hold, K: without control, the reaction dies out or runs away."""

Vector = NDArray[np.float32]


class Reactor(gymnasium.Env[Vector, Vector]):
    """Choose the coolant's temperature; the reward is the negative distance to the target, in tens of kelvin."""

    STEPS = 100

    observation_space = gymnasium.spaces.Box(np.array([0, 200]), np.array([2, 700]), dtype=np.float32)
    action_space = gymnasium.spaces.Box(280, 320, (1,), np.float32)

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Vector, dict[str, Any]]:
        """Begin near the operating point."""
        super().reset(seed=seed)
        self._steps = 0
        return self._ask(f"reset {self.np_random.integers(2**31)}"), {}

    def step(self, action: Vector) -> tuple[Vector, float, bool, bool, dict[str, Any]]:
        """Advance by 1.8 seconds."""
        state = self._ask(f"step {float(action[0])}")
        self._steps += 1
        return state, -abs(float(state[1]) - TARGET) / 10, False, self._steps == self.STEPS, {}

    def close(self) -> None:
        """End the program, whatever it is doing."""
        self._process.kill()
        self._process.communicate()

    def _ask(self, command: str) -> Vector:
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            code = self._process.wait()
            raise RuntimeError(f"the reactor ended with code {code}: {self._process.stderr.read().strip()}")
        return np.array(answer.split(), dtype=np.float32)


def proportional(observation: Vector) -> Vector:
    """Cool in proportion to the distance from the target: the rule to beat."""
    return np.array([314 - 8 * (observation[1] - TARGET)], dtype=np.float32)
