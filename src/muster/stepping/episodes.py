"""Episodes of whoever chooses the actions, on a simulator of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from muster.simulators.seeding import Stream, reset_seed
from muster.stepping.info_metrics import Episode, InfoMetrics
from muster.stepping.live import LiveSimulator

Act = Callable[[Any, Any], Any]
"""From an observation and its `info` to an action."""


def play(
    live: LiveSimulator,
    act: Act,
    episodes: int,
    seed: int,
    on_step: Callable[[], None] = lambda: None,
    begin_episode: Callable[[], None] = lambda: None,
    metrics: Mapping[str, str] | None = None,
) -> Iterator[Episode]:
    """Run episodes with a function that chooses the actions; yield each when it has ended.

    `begin_episode` is called after each reset, `on_step` then and after each step. `metrics` are names in `info`,
    each with how its numbers become one.

    Raises:
        FailedCallError: if the simulator fails.
    """
    own = InfoMetrics(metrics or {}, 1)
    for number in range(episodes):
        live.begin(number, reset_seed(seed, Stream.EVALUATION, number))
        observation, info = live.reset()
        begin_episode()
        on_step()
        total, length, ended = 0.0, 0, False
        while not ended:
            observation, reward, terminated, truncated, info = live.step(act(observation, info))
            on_step()
            own.add(0, info)
            total += reward
            length += 1
            ended = terminated or truncated
        yield Episode(total, length, own.take(0))
