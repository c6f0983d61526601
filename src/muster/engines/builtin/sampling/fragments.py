"""What a group samples in one iteration: arrays filled step by step, then what the learner needs of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from muster.engines.moments import Moments
from muster.policies.scale import Scale
from muster.stepping.many import Events

Array = NDArray[Any]


@dataclass(frozen=True)
class Weights:
    """What a group samples with: the networks' flat vector, and the scales of this iteration."""

    parameters: Array
    observation_scale: Scale | None
    reward_std: float


@dataclass(frozen=True)
class Fragment:
    """What a group sampled in one iteration: arrays with a row per step, and what happened on the way.

    Observations are scaled, in the row format of the experiment.
    """

    observations: Array
    actions: Array
    log_probs: Array
    advantages: Array
    returns: Array
    masks: Array
    observation_moments: Moments
    return_moments: Moments
    steps: int
    episodes: list[tuple[float, int]]
    num_failures: int
    next_episodes: list[int]
    seconds: float


@dataclass
class Recording:
    """The arrays that are filled step by step, `[T, N]`; observations are kept raw where they are measured."""

    raw: Array
    inputs: Array
    masks: Array
    outputs: Array
    actions: Array
    rewards: Array
    terminated: Array
    ended: Array
    valid: Array
    discounted: Array
    episode_starts: list[int]
    finals: list[tuple[int, int, Array]] = field(default_factory=list)
    episodes: list[tuple[float, int]] = field(default_factory=list)
    num_skipped: int = 0

    def add(self, t: int, events: Events) -> None:
        """Add what happened in a step besides rewards."""
        starts = self.episode_starts
        for i in events.dropped:
            self.valid[starts[i] : t + 1, i] = False
        if events.skipped:
            self.valid[t, events.skipped] = False
            self.num_skipped += len(events.skipped)
        for i in events.ended:
            starts[i] = t + 1
        for i, row in events.finals:
            self.finals.append((t, i, row))
        self.episodes += events.episodes
