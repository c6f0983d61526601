"""What a group samples in one iteration: arrays filled step by step, then what the learner needs of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.engines.moments import Moments
from muster.policies.scale import Scale
from muster.stepping.info_metrics import Episode
from muster.stepping.many import Events

Array = NDArray[Any]


@dataclass(frozen=True)
class Weights:
    """What a group samples with: the networks' flat vector, and the scales and scheduled values of this iteration.

    As long as the scales are not known, observations are only clipped, and rewards are taken as they are.
    """

    parameters: Array
    observation_scale: Scale | None
    reward_std: float
    scales_are_known: bool = True
    scheduled: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Fragment:
    """What a group sampled in one iteration: arrays with a row per step, and what happened on the way.

    Observations are scaled, in the row format of the experiment. Where the scales were not known, `recording` is
    there, so that the learner can compute the arrays again once they are measured.
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
    episodes: list[Episode]
    num_failures: int
    next_episodes: list[int]
    seconds: float
    recording: Recording | None = None


@dataclass
class Recording:
    """The arrays that are filled step by step, `[T, N]`; observations are kept raw where they are measured.

    `last_rows` are the observations after the last step, then those of `finals`.
    """

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
    last_rows: Array = field(default_factory=lambda: np.empty((0, 0)))
    episodes: list[Episode] = field(default_factory=list)
    num_skipped: int = 0

    @property
    def kept_rows(self) -> Any:
        """An index of the steps, in one row, that may be learned from."""
        return slice(None) if self.valid.all() else self.valid.reshape(-1)

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
