"""What one iteration learns from: the fragments of all groups, joined in group order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.engines.builtin.networks.protocol import Networks
from muster.engines.builtin.sampling.fragments import Fragment
from muster.policies.distributions import masked

Array = NDArray[Any]

LARGEST_WEIGHT = 2.0
BLOCK = 1024
"""Rows that a network reads at once where the batch may be cut anywhere: so few that its layers stay in cache."""


@dataclass(frozen=True)
class Batch:
    """Arrays with a row per step; masks have no columns if nothing is ever masked out."""

    observations: Array
    actions: Array
    log_probs: Array
    advantages: Array
    returns: Array
    masks: Array

    @classmethod
    def join(cls, fragments: Sequence[Fragment]) -> Batch:
        """Join fragments, in the order given; one without masks beside others with them allows everything."""
        columns = {name: [getattr(part, name) for part in fragments] for name in cls.__dataclass_fields__}
        width = max(masks.shape[1] for masks in columns["masks"])
        columns["masks"] = [
            masks if masks.shape[1] == width else np.ones((len(masks), width), bool) for masks in columns["masks"]
        ]
        return cls(**{name: np.concatenate(parts) for name, parts in columns.items()})

    def __len__(self) -> int:
        return len(self.returns)

    @property
    def values(self) -> Array:
        """The values that the steps had when they were sampled."""
        return self.returns - self.advantages

    def normalised_advantages(self) -> Array:
        """Advantages with mean 0 and standard deviation 1."""
        centred = self.advantages - self.advantages.mean()
        normalised: Array = centred / (centred.std() + 1e-8)
        return normalised

    def corrected_advantages(self, log_probs: Array) -> Array:
        """Normalised advantages, weighted by how much likelier each action is under the policy that learns now.

        All weights are 1 unless sampling overlaps with learning, so that an older policy sampled the actions, or
        the batch was sampled before the scales were known, so that the policy saw other numbers.
        """
        weights = np.minimum(np.exp(log_probs - self.log_probs), LARGEST_WEIGHT)
        corrected: Array = weights * self.normalised_advantages()
        return corrected

    def policy_outputs(self, networks: Networks, parts: Any) -> Array:
        """Return the policy's outputs for all rows, masks applied."""
        rows = blocks(self.observations, self.masks)
        return np.concatenate([masked(networks.policy_outputs(parts, seen), masks) for seen, masks in rows])

    def new_values(self, networks: Networks, parts: Any) -> Array:
        """Return the values of all rows under the current parameters."""
        return np.concatenate([networks.values(parts, rows) for (rows,) in blocks(self.observations)])

    def explained_variance(self) -> float | None:
        """Return the fraction of the returns' variance that the values predicted; None if there is none."""
        variance = float(self.returns.var())
        return 1.0 - float(self.advantages.var()) / variance if variance > 0 else None


def minibatches(rng: np.random.Generator, size: int, *columns: Array) -> Iterator[tuple[Array, ...]]:
    """Shuffle the columns together once, then yield slices of a size; the last one may be smaller."""
    order = rng.permutation(len(columns[0]))
    yield from blocks(*(column[order] for column in columns), size=size)


def blocks(*columns: Array, size: int = BLOCK) -> Iterator[tuple[Array, ...]]:
    """Yield slices of the columns in order; the last one may be smaller."""
    for start in range(0, len(columns[0]), size):
        yield tuple([column[start : start + size] for column in columns])
