"""Episodes with random actions, and what they show: returns, rewards, observations, masks, numbers in `info`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from muster.experiment.quantities import counted
from muster.simulators.describing import (
    MASK,
    UnsupportedSpaceError,
    describe_actions,
    describe_observations,
    with_mask,
)
from muster.simulators.encoding import ObservationEncoder
from muster.simulators.masks import MaskReader, random_action
from muster.simulators.verdict import Verdict
from muster.stepping.batches import OneOfBatch
from muster.stepping.failures import MAX_FAILURES_IN_A_ROW, SimulatorFailure
from muster.stepping.findings import Finding
from muster.stepping.info_metrics import numbers_of
from muster.stepping.live import FailedCallError, LiveSimulator

EPISODES = 3
SECONDS = 3.0
MOST_NAMES = 12
LONG_EPISODE = 20
"""Episodes that all end after so many steps or more probably have a time limit."""


@dataclass
class RandomPlay:
    """What episodes with random actions have shown so far."""

    failures: dict[str, SimulatorFailure] = field(default_factory=dict)
    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    cut: int = 0
    """How many of the episodes a time limit ended."""
    rewards: list[float] = field(default_factory=list)
    low: NDArray[Any] | None = None
    high: NDArray[Any] | None = None
    """Smallest and largest value of each entry of the encoded observations."""
    allowed: list[float] = field(default_factory=list)
    """Shares of the choices that masks allowed."""
    numbers: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Smallest and largest value of each number in `info`."""
    dtype: Any = None
    steps: int = 0
    seconds: float = 0.0

    def add_info(self, info: Any) -> None:
        """Take the `info` of a step."""
        for name, value in numbers_of(info):
            low, high = self.numbers.get(name, (value, value))
            self.numbers[name] = min(low, value), max(high, value)


class _Reader:
    """Reads observations and masks as training does; nothing of spaces that it cannot train in."""

    def __init__(self, live: LiveSimulator) -> None:
        self.encoder: ObservationEncoder | None = None
        try:
            actions = describe_actions(live.env.action_space)
            observations = with_mask(describe_observations(live.env.observation_space), actions)
        except UnsupportedSpaceError:
            return
        self.encoder = ObservationEncoder(observations)
        self._masks = MaskReader(observations, actions)

    def read(self, play: RandomPlay, observation: Any, info: Any, *, is_last: bool) -> None:
        """Add what a reset or step returned."""
        if self.encoder is None:
            return
        row = np.zeros(self.encoder.size, np.float32)
        self.encoder.encode_into(row, observation)
        play.low = row if play.low is None else np.minimum(play.low, row)
        play.high = row if play.high is None else np.maximum(play.high, row)
        play.dtype = getattr(observation, "dtype", None)
        if self._masks.sizes and not is_last and (mask := self._masks.read(observation, info)) is not None:
            play.allowed.append(float(mask.mean()))


def play_randomly(live: LiveSimulator) -> RandomPlay:
    """Play some episodes, in which everything counts as a failure that does in training."""
    play, reader = RandomPlay(), _Reader(live)
    live.env.action_space.seed(0)
    started, attempts = time.perf_counter(), 0

    def has_time() -> bool:
        return time.perf_counter() - started < SECONDS

    while len(play.lengths) < EPISODES and len(play.failures) < MAX_FAILURES_IN_A_ROW and has_time():
        live.begin(attempts, attempts)
        attempts += 1
        length, total, ended = 0, 0.0, False
        try:
            observation, info = live.reset()
            reader.read(play, observation, info, is_last=False)
            while not ended and has_time():
                action = random_action(live.env.action_space, observation, info)
                observation, reward, terminated, truncated, info = live.step(action)
                ended = terminated or truncated
                length, total = length + 1, total + reward
                play.rewards.append(reward)
                play.add_info(info)
                reader.read(play, observation, info, is_last=ended)
        except FailedCallError as error:
            play.failures.setdefault(error.failure.error, error.failure)
            if attempts > 2 * EPISODES:
                break
        play.steps += length
        if ended:
            play.lengths.append(length)
            play.cut += bool(truncated)
            play.returns.append(total)
    play.seconds = time.perf_counter() - started
    return play


def findings_of(play: RandomPlay, live: LiveSimulator) -> Iterator[Finding]:
    """Yield what the episodes showed, apart from failures."""
    is_batch = isinstance(live.env.unwrapped, OneOfBatch)
    if play.steps:
        how = "with random actions" + (", in a batch of one" if is_batch else "")
        yield Finding(Verdict.OK, "speed", f"{play.steps / play.seconds:,.0f} steps/s {how}")
    yield from _episodes(play)
    yield from _rewards(play)
    yield from _observations(play, live)
    if play.allowed:
        message = f"{MASK}: {100 * np.mean(play.allowed):.0f} % of the choices allowed, on average"
        yield Finding(Verdict.OK, "masks", message)
    yield from _numbers(play)


def _episodes(play: RandomPlay) -> Iterator[Finding]:
    lengths = play.lengths
    if lengths:
        steps_of_each = " to ".join(map(str, sorted({min(lengths), max(lengths)})))
        text = f"{counted(len(lengths), 'random episode')} of {steps_of_each} steps, "
        low, high = min(play.returns), max(play.returns)
        text += f"return {low:.5g}" + (f" to {high:.5g}" if high > low else "")
        if len(lengths) > 1 and max(lengths) == min(lengths) >= LONG_EPISODE and not play.cut:
            text += "\nall ended as `terminated` after the same time: if that is a time limit, return `truncated`"
        yield Finding(Verdict.OK, "episodes", text)
    elif not play.failures:
        message = f"no episode ended within {play.steps} random steps"
        hint = "if episodes may never end, set env.max_episode_steps"
        yield Finding(Verdict.WARNING, "episodes", message, hint)


def _rewards(play: RandomPlay) -> Iterator[Finding]:
    if not play.rewards:
        return
    low, high = min(play.rewards) + 0.0, max(play.rewards) + 0.0  # no "-0"
    if low < high:
        yield Finding(Verdict.OK, "rewards", f"{low:.5g} to {high:.5g} a step")
    elif len(set(play.lengths)) < 2:
        message = f"every one of {counted(len(play.rewards), 'random step')} had the reward {low:.5g}"
        hint = "if random actions never change the reward, there is nothing to learn from: reward partial success"
        yield Finding(Verdict.WARNING, "rewards", message, hint)
    else:
        yield Finding(Verdict.OK, "rewards", f"{low:.5g} at every step: the return is in the length of episodes")


def _observations(play: RandomPlay, live: LiveSimulator) -> Iterator[Finding]:
    encoder = _Reader(live).encoder
    if encoder is None or play.low is None or play.high is None or not play.steps:
        return
    space = live.env.observation_space
    if play.dtype is not None and isinstance(space, gymnasium.spaces.Box) and play.dtype != space.dtype:
        message = f"{play.dtype}, though the space says {space.dtype}: trained on as float32"
        yield Finding(Verdict.OK, "values", message)
    low, high = play.low, play.high
    for name, leaf, place in encoder.parts:
        if leaf["kind"] != "box":
            continue
        still = np.flatnonzero(low[place] == high[place])
        if len(still) and len(still) <= MOST_NAMES:
            entries = ", ".join(f"{k} ({low[place][k]:.5g})" for k in still)
            what = "entry" if len(still) == 1 else "entries"
            yield Finding(Verdict.WARNING, "values", f"{name}: {what} {entries} never changed in random episodes")
        elif len(still):
            yield Finding(Verdict.WARNING, "values", f"{name}: {len(still)} entries never changed")
        for k in _beyond(leaf, low[place], high[place]):
            ends = (float(np.ravel(leaf[end])[k]) for end in ("low", "high"))
            message = "{}: entry {} is {:.9g} to {:.9g}, its space says {:.5g} to {:.5g}: training lets it pass"
            yield Finding(Verdict.OK, "values", message.format(name, k, low[place][k], high[place][k], *ends))


def _beyond(leaf: Any, low: NDArray[Any], high: NDArray[Any]) -> list[int]:
    """Return the entries that left their bounds unrefused: by rounding, or as bounds are not checked."""
    lowest, highest = (np.ravel(np.asarray(leaf[end], float)).astype(np.float32) for end in ("low", "high"))
    found: list[int] = np.flatnonzero((low < lowest) | (high > highest)).tolist()
    return found[:MOST_NAMES]


def _numbers(play: RandomPlay) -> Iterator[Finding]:
    """List what `[metrics]` can record."""
    names = [
        f"{name} ({low:.4g}" + (f" to {high:.4g})" if high > low else ")")
        for name, (low, high) in play.numbers.items()
    ]
    if names:
        more = f", and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        yield Finding(Verdict.OK, "info", f"[metrics] can record: {', '.join(names[:MOST_NAMES])}{more}")
