"""Small simulators for tests."""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import EzPickle


class Guess(gymnasium.Env[Any, Any]):
    """Reward 1 for naming the number that is shown; episodes of ten steps, by time limit or termination."""

    def __init__(self, choices: int = 3, length: int = 10, truncates: bool = False) -> None:
        self.observation_space = spaces.Discrete(choices)
        self.action_space = spaces.Discrete(choices)
        self.length, self.truncates = length, truncates
        self.shown, self.steps = 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        self.shown = int(self.np_random.integers(self.action_space.n))  # type: ignore[attr-defined]
        return self.shown, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = float(action == self.shown)
        self.steps += 1
        self.shown = int(self.np_random.integers(self.action_space.n))  # type: ignore[attr-defined]
        over = self.steps == self.length
        return self.shown, reward, over and not self.truncates, over and self.truncates, {}


class Waiting(Guess):
    """The first simulators of a run step only when a file is there; they wait for it, but not for ever."""

    def __init__(self, index: int, path: str) -> None:
        super().__init__()
        self.waits, self.path = index < 2, Path(path)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        deadline = time.monotonic() + 30
        while self.waits and not self.path.exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.path} did not come")
            time.sleep(0.02)
        return super().step(action)


class Configured(Guess):
    """Takes its settings as one dict."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(choices=config["choices"])


class Identity(gymnasium.Env[Any, Any]):
    """Reward 1 for an action within 0.5 of the number that is shown; episodes of a hundred steps."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1, 1, (1,))
        self.action_space = spaces.Box(-1, 1, (1,))
        self.shown, self.steps = np.zeros(1, np.float32), 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._show(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = float(abs(float(action[0] - self.shown[0])) < 0.5)
        self.steps += 1
        return self._show(), reward, False, self.steps == 100, {}

    def _show(self) -> Any:
        self.shown = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self.shown


class Aim(gymnasium.Env[Any, Any]):
    """Reward for an action near the observed point; one step an episode."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1, 1, (2,))
        self.action_space = spaces.Box(np.array([-2.0, 0.0]), np.array([2.0, 10.0]), dtype=np.float64)
        self.point = np.zeros(2, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.point = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.point, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        wanted = self.point * [2.0, 5.0] + [0.0, 5.0]
        return self.point, -float((((action - wanted) / [2.0, 5.0]) ** 2).sum()), True, False, {}


class GlobalRandomness(Guess):
    """Draws its rewards from the process-wide generators."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, _, terminated, truncated, info = super().step(action)
        return observation, random.random() + float(np.random.random()), terminated, truncated, info


class Unpicklable(Guess):
    """Cannot be pickled."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


class Failing(Guess):
    """Fails in the way and at the step that it is told, in every `every`-th instance's life."""

    built = 0

    def __init__(self, how: str = "raise", at: int = 3, every: int = 1, choices: int = 3) -> None:
        super().__init__(choices)
        type(self).built += 1
        self.how = how if type(self).built % every == 0 else "not"
        self.at, self.total = at, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        if self.how == "reset":
            raise RuntimeError("no reset today")
        return super().reset(seed=seed)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.total += 1
        observation, reward, terminated, truncated, info = super().step(action)
        if self.total == self.at:
            if self.how == "raise":
                raise RuntimeError("the pump broke")
            if self.how == "reward":
                return observation, float("nan"), terminated, truncated, info
            if self.how == "outside":
                return int(self.action_space.n), reward, terminated, truncated, info  # type: ignore[attr-defined]
        return observation, reward, terminated, truncated, info


class Drifting(gymnasium.Env[Any, Any]):
    """A Box observation that becomes NaN at its fifth step."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,))
        self.action_space = spaces.Discrete(2)
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return np.ones(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        value = np.nan if self.steps == 5 else 1.0
        return np.full(2, value, np.float32), 0.0, False, False, {}


class TextObservations(Guess):
    """Has a space without an encoding."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Text(4)


def make_guess(choices: int = 4) -> Guess:
    """Build a Guess, as a function."""
    return Guess(choices)


class BrokenConstructor(Guess):
    """Cannot be built."""

    def __init__(self) -> None:
        raise OSError("licence server not reachable")


class Slow(Guess):
    """Takes its time for a step."""

    def __init__(self, seconds: float = 0.1) -> None:
        super().__init__()
        self.seconds = seconds

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        time.sleep(self.seconds)
        return super().step(action)


class SlowOnceTold(Guess):
    """Takes its time for a step as soon as a file is there, and writes another one beside it when it does."""

    def __init__(self, file: str = "slow") -> None:
        super().__init__()
        self.file = Path(file).resolve()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.file.exists():
            self.file.with_name("slow-step").touch()
            time.sleep(0.02)
        return super().step(action)


class Forgetful(Guess, EzPickle):
    """Pickles its constructor's arguments and none of its state."""

    def __init__(self) -> None:
        Guess.__init__(self)
        EzPickle.__init__(self)


class NanAtReset(Drifting):
    """Its first observation is not finite."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        observation, info = super().reset(seed=seed)
        return observation * np.nan, info


class FailsWhenEvaluated(Guess):
    """Fails in the first process-wide instance that is built after the file is there."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self.fails = Path(file).exists()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.fails:
            raise RuntimeError("the valve stuck")
        return super().step(action)


class Dying(Guess):
    """Ends its process at the third step."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.steps == 2:
            os._exit(1)
        return super().step(action)


class Parts(Guess):
    """Shows its number in a Dict, beside measurements in a Tuple; acts with two choices."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Dict(
            {"shown": spaces.Discrete(3), "rest": spaces.Tuple((spaces.Box(-9, 9, (2,)), spaces.MultiBinary(2)))}
        )
        self.action_space = spaces.MultiDiscrete([3, 2])

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        gymnasium.Env.reset(self, seed=seed)
        self.steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = float(action[0] == self.shown)
        self.steps += 1
        return self._observe(), reward, self.steps == self.length, False, {}

    def _observe(self) -> dict[str, Any]:
        self.shown = int(self.np_random.integers(3))
        return {"shown": self.shown, "rest": (self.np_random.normal(size=2).astype(np.float32), np.array([1, 0]))}


class Picture(Parts):
    """Shows a small picture."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0, 255, (8, 8, 3), np.uint8)

    def _observe(self) -> Any:
        self.shown = int(self.np_random.integers(3))
        return np.full((8, 8, 3), 100 * self.shown, np.uint8)


class Housed(Guess):
    """Leaves a mark in its folder each time it is built there."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        with (Path(folder) / "built").open("a") as file:
            file.write("x")


class Stuck(Guess):
    """Sleeps for a minute while it is built; or after a thousand steps, in every step or while it is closed."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where, self.taken = where, 0
        if where == "build":
            time.sleep(60)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.taken += 1
        if self.where == "step" and self.taken > 1000:
            time.sleep(60)
        return super().step(action)

    def close(self) -> None:
        if self.where == "close" and self.taken > 1000:
            time.sleep(60)


class Large(Guess):
    """Takes time to build, and memory."""

    def __init__(self, seconds: float = 0.0, mebibytes: int = 0) -> None:
        super().__init__()
        time.sleep(seconds)
        self.mesh = np.ones(mebibytes * 1024**2, np.uint8)


class Canvas(Guess):
    """Shows an image of any shape."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.observation_space: Any = spaces.Box(0, 255, tuple(shape), np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(self.observation_space.shape, np.uint8), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        _, reward, terminated, truncated, info = super().step(action)
        return np.full(self.observation_space.shape, self.shown, np.uint8), reward, terminated, truncated, info


class Sleepy(Guess):
    """Takes a while for each step, though not too long."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        time.sleep(0.15)
        return super().step(action)


class EndsInClose(Guess):
    """Takes its process with it when it is closed."""

    def close(self) -> None:
        os._exit(5)
