"""Episodes of a policy, or of random actions, on a simulator of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from muster.engines.builtin.threads import threads
from muster.engines.failing import FAILURES, Place, failure_of
from muster.engines.journal import Call
from muster.errors import MusterError, SimulatorError
from muster.policies import Policy
from muster.simulators.building import Simulator, close_problem
from muster.simulators.masks import mask_in
from muster.simulators.plain_actions import plain
from muster.simulators.seeding import ProcessRandomness, Stream, generator, reset_seed

Act = Callable[[Any, Any], Any]
"""From an observation and its `info` to an action."""


@dataclass(frozen=True)
class Episode:
    """How one episode went."""

    total: float
    length: int


@dataclass(frozen=True)
class Evaluation:
    """How some episodes went."""

    episodes: int
    return_mean: float
    return_std: float
    length_mean: float

    @classmethod
    def of(cls, episodes: list[Episode]) -> Evaluation:
        """Summarise episodes."""
        totals = [episode.total for episode in episodes]
        return cls(
            len(episodes),
            float(np.mean(totals)),
            float(np.std(totals)),
            float(np.mean([episode.length for episode in episodes])),
        )


def evaluate(
    policy: Policy,
    simulator: Simulator,
    episodes: int,
    seed: int,
    *,
    deterministic: bool = True,
    on_step: Callable[[], None] = lambda: None,
) -> Evaluation:
    """Let a policy act for some episodes; leaves the process's random numbers as they were.

    Raises:
        SimulatorError: if the simulator fails; it carries the failure, with all that repeats it.
    """
    rng = generator(seed, Stream.EVALUATION)
    with ProcessRandomness(seed, Stream.EVALUATION).installed(), threads(1):
        env = _build(simulator, seed)
        try:

            def act(observation: Any, info: Any) -> Any:
                return policy.act(observation, mask=mask_in(info), deterministic=deterministic, rng=rng)

            return Evaluation.of(list(play(env, act, episodes, seed, on_step, policy.begin_episode)))
        finally:
            close_problem(env)


def play(
    env: Any,
    act: Act,
    episodes: int,
    seed: int,
    on_step: Callable[[], None] = lambda: None,
    begin_episode: Callable[[], None] = lambda: None,
) -> Iterator[Episode]:
    """Run episodes with a function that chooses the actions; yield each when it has ended.

    `begin_episode` is called after each reset, `on_step` then and after each step.

    Raises:
        SimulatorError: if the simulator fails; it carries the failure, with all that repeats it.
    """
    for number in range(episodes):
        attempt = _Attempt(env, number, seed)
        observation, info = attempt.reset()
        begin_episode()
        on_step()
        total, length, ended = 0.0, 0, False
        while not ended:
            observation, reward, ended, info = attempt.step(act, observation, info)
            on_step()
            total += reward
            length += 1
        yield Episode(total, length)


class _Attempt:
    """An episode under way: its seed, and the actions so far, which tell how it came to fail if it does."""

    def __init__(self, env: Any, number: int, seed: int) -> None:
        self._env = env
        self._number = number
        self._seed = reset_seed(seed, Stream.EVALUATION, number)
        self._actions: list[Any] = []

    def reset(self) -> tuple[Any, Any]:
        try:
            observation, info = self._env.reset(seed=self._seed)
        except FAILURES as error:
            raise self.failed(error, Call.RESET) from None
        return observation, info

    def step(self, act: Act, observation: Any, info: Any) -> tuple[Any, float, bool, Any]:
        """Act and step; that an observation does not fit its space is found by whoever acts on it."""
        done = len(self._actions)
        try:
            action = act(observation, info)
            self._actions.append(plain(action))
            observation, reward, terminated, truncated, info = self._env.step(action)
            if not math.isfinite(reward := float(reward)):
                raise ValueError(f"reward is {reward}")
            return observation, reward, bool(terminated or truncated), info
        except FAILURES as error:
            raise self.failed(error, Call.STEP, done) from None

    def failed(self, error: BaseException, call: Call, done: int = 0) -> MusterError:
        """Return the error that tells of a failure after so many steps."""
        if isinstance(error, MusterError):
            return error
        place = Place(None, None, None, self._number, self._seed, done)
        failure = failure_of(error, place, call, self._actions)
        return SimulatorError(f"the simulator failed: {failure}\n\n{failure.traceback}", [failure])


def _build(simulator: Simulator, seed: int) -> Any:
    try:
        return simulator.build()
    except FAILURES as error:
        raise _Attempt(None, 0, seed).failed(error, Call.BUILD) from None
