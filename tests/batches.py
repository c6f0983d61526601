"""Small batches of simulators for tests."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper

from tests import puzzles, toys
from tests.misbehaving import misbehave


class Count(gymnasium.Env[Any, Any]):
    """Shows its number, how many episodes it has begun and the step, and rewards with the step; nothing is random.

    Episodes have `length` steps, one more for each simulator, and end by a time limit if `truncates`. `wrong` says
    what goes wrong in the second simulator, at the second step of an episode.
    """

    rebuilt = 0

    def __init__(
        self, number: int, length: int = 3, truncates: bool = False, wrong: str = "", episode: int = 0
    ) -> None:
        self.observation_space = spaces.Box(-1, 1000, (3,))
        self.action_space = spaces.Discrete(2)
        self.number, self.length, self.truncates = number, length + number, truncates
        self.wrong, self.wrong_episode = wrong if number == 1 else "", episode
        self.episode, self.steps = -1, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.episode += 1
        self.steps = 0
        if self.wrong and self.episode == 1 and self.wrong.endswith("at reset"):
            return self._misbehaves(self.wrong.removesuffix(" at reset"), (self._observe(), {}))
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        over = self.steps == self.length
        outcome: Any = self._observe(), float(self.steps), over and not self.truncates, over and self.truncates, {}
        if self.wrong and self.episode == self.wrong_episode and self.steps == 2:
            return self._misbehaves(self.wrong, outcome)
        return outcome

    def _misbehaves(self, how: str, outcome: tuple[Any, ...]) -> Any:
        if how == "NaN" and len(outcome) == 2:
            return outcome[0] * np.nan, outcome[1]
        if how == "raise":
            raise RuntimeError("the pump broke")
        if how == "outside":
            return (np.full(3, 2000, np.float32), *outcome[1:])
        if how == "NaN reward":
            return (outcome[0], float("nan"), *outcome[2:])
        return misbehave(how, outcome)

    def _observe(self) -> Any:
        return np.array([self.number, self.episode, self.steps], np.float32)


def counts(num_envs: int, mode: str = "NextStep", fails: int = 1, **config: Any) -> VectorEnv[Any, Any, Any]:
    """Build a batch of Count; only the first `fails` of a process go wrong."""
    Count.rebuilt += 1
    if Count.rebuilt > fails:
        config = {**config, "wrong": ""}
    return _sync([lambda i=i: Count(i, **config) for i in range(num_envs)], mode)


class Sloppy(VectorWrapper):
    """Returns a reward and an end with the first observation of an episode; takes actions of one type only."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.single_action_space = spaces.Discrete(2, dtype=np.int16)
        self.was_over = np.zeros(self.num_envs, bool)

    def step(self, actions: Any) -> Any:
        assert actions.dtype == np.int16
        returned: Any = super().step(actions)
        observations, rewards, terminated, truncated, infos = returned
        rewards[self.was_over] = 7.0
        terminated[self.was_over] = True
        self.was_over = (terminated | truncated) & ~self.was_over
        return observations, rewards, terminated, truncated, infos


def sloppy_counts(num_envs: int, mode: str = "NextStep", **config: Any) -> VectorEnv[Any, Any, Any]:
    """Build a sloppy batch of Count."""
    return Sloppy(counts(num_envs, mode, **config)) if mode == "NextStep" else counts(num_envs, mode, **config)


def sync(num_envs: int, of: str, mode: str = "NextStep", **config: Any) -> VectorEnv[Any, Any, Any]:
    """Build a batch of toys or puzzles."""
    make = getattr(toys, of, None) or getattr(puzzles, of)
    return _sync([lambda: make(**config)] * num_envs, mode)


def asynchronous(num_envs: int, of: str = "Guess", mode: str = "Disabled") -> VectorEnv[Any, Any, Any]:
    """Build a batch of toys, each in a process of its own."""
    make = getattr(toys, of)
    return AsyncVectorEnv([make] * num_envs, autoreset_mode=AutoresetMode(mode))


class HangsOnce(toys.Guess):
    """Hangs at its fifth step, in the first batch that is built beside a file that is not there yet."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self.file, self.steps = Path(file), 0

    def step(self, action: Any) -> Any:
        self.steps += 1
        if self.steps == 5 and not self.file.exists():
            self.file.touch()
            time.sleep(120)
        return super().step(action)


def hanging_processes(num_envs: int, file: str) -> VectorEnv[Any, Any, Any]:
    """Build a batch with a process for each simulator, of which one hangs."""
    return AsyncVectorEnv([lambda: HangsOnce(file)] * num_envs)


def _sync(makers: Any, mode: str) -> VectorEnv[Any, Any, Any]:
    return SyncVectorEnv(makers, autoreset_mode=AutoresetMode(mode))


def broken(num_envs: int, how: str = "raise", after: int = 5) -> VectorEnv[Any, Any, Any]:
    """Build a batch that fails as a whole after some steps."""
    return Broken(sync(num_envs, "Guess"), how, after)


class Broken(VectorWrapper):
    """Fails as a whole."""

    def __init__(self, env: Any, how: str, after: int) -> None:
        super().__init__(env)
        self.how, self.after, self.taken = how, after, 0

    def step(self, actions: Any) -> Any:
        self.taken += 1
        if self.taken == self.after:
            if self.how == "raise":
                raise RuntimeError("the pool is empty")
            if self.how == "hang":
                time.sleep(60)
            if self.how == "die":
                os._exit(7)
            if self.how == "few rewards":
                returned: Any = super().step(actions)
                return returned[0], returned[1][:1], *returned[2:]
        return super().step(actions)


def two(num_envs: int) -> VectorEnv[Any, Any, Any]:
    """Build two, however many are wanted."""
    return sync(2, "Guess")


def fixed() -> VectorEnv[Any, Any, Any]:
    """Build a batch without being asked for one."""
    return sync(3, "Guess")


def alone(num_envs: int) -> toys.Guess:
    """Build a single simulator, though many are wanted."""
    return toys.Guess()


def few(num_envs: int) -> VectorEnv[Any, Any, Any]:
    """Build as many as are wanted, if that is one."""
    return sync(min(num_envs, 1), "Guess")
