"""Episodes of a policy, or of random actions, on a simulator of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from muster.engines.builtin.threads import threads
from muster.policies import Policy
from muster.simulators.building import Simulator, build_explained, close_problem, simulator_errors
from muster.simulators.masks import mask_in
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
        SimulatorError: if the simulator fails.
    """
    rng = generator(seed, Stream.EVALUATION)
    with ProcessRandomness(seed, Stream.EVALUATION).installed(), threads(1):
        env = build_explained(simulator)
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
        SimulatorError: if the simulator fails.
    """
    for number in range(episodes):
        with simulator_errors(f"the simulator failed in episode {number + 1}"):
            observation, info = env.reset(seed=reset_seed(seed, Stream.EVALUATION, number))
        begin_episode()
        on_step()
        total, length, ended = 0.0, 0, False
        while not ended:
            with simulator_errors(f"the simulator failed in episode {number + 1}, step {length + 1}"):
                observation, reward, terminated, truncated, info = env.step(act(observation, info))
            on_step()
            total += float(reward)
            length += 1
            ended = bool(terminated or truncated)
        yield Episode(total, length)
