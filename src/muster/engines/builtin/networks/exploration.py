"""How a group draws its actions: afresh at every step, or along directions that last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from muster.engines.builtin.networks.actor_critic import ActorCritic
from muster.engines.builtin.networks.protocol import Networks
from muster.policies import state_dependent
from muster.policies.distributions import masked

Array = NDArray[Any]


class Exploration(Protocol):
    """Draws actions from what a network puts out."""

    def noise(self, rng: np.random.Generator, length: int, count: int) -> Sequence[Array] | Array:
        """Draw what each step of a fragment needs, all at once."""

    def act(self, parts: Any, rows: Array, masks: Array, noise: Array) -> tuple[Array, Array]:
        """Return outputs and drawn actions; masks without columns forbid nothing."""


class IndependentExploration:
    """Noise that is drawn afresh at every step."""

    def __init__(self, networks: Networks) -> None:
        self._networks = networks

    def noise(self, rng: np.random.Generator, length: int, count: int) -> Array:
        return self._networks.distribution.noise(rng, (length, count))

    def act(self, parts: Any, rows: Array, masks: Array, noise: Array) -> tuple[Array, Array]:
        outputs = masked(self._networks.policy_outputs(parts, rows), masks)
        return outputs, self._networks.distribution.sample(outputs, noise)


class StateDependentExploration:
    """Noise along directions in the space of the features, drawn every so many steps of a fragment."""

    def __init__(self, networks: ActorCritic, sample_freq: int | None) -> None:
        self._networks, self._sample_freq = networks, sample_freq

    def noise(self, rng: np.random.Generator, length: int, count: int) -> list[Array]:
        every = self._sample_freq or length
        draws = -(-length // every)
        directions = rng.standard_normal((draws, count, *self._networks.log_std_shape), dtype=np.float32)
        return [directions[t // every] for t in range(length)]

    def act(self, parts: Any, rows: Array, masks: Array, noise: Array) -> tuple[Array, Array]:
        networks = self._networks
        features = networks.features(parts, rows)
        outputs = networks.with_log_std(parts, networks.policy.last(parts.policy, features), features)
        units = state_dependent.standardised(features, parts.log_std, noise)
        return outputs, networks.distribution.sample(outputs, units)
