"""The policy and value networks as one flat vector: layout, first values, outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.policies.distributions import Choices, Gaussian
from muster.policies.mlp import MLP, Layers

Array = NDArray[Any]

INITIAL_LOG_STD = -0.5


@dataclass(frozen=True)
class Parameters:
    """Views into the flat vector, part by part."""

    policy: Layers
    log_std: Array
    value: Layers


@dataclass(frozen=True)
class ActorCritic:
    """Two networks of the same hidden shape; the flat vector is [policy | log_std | value]."""

    policy: MLP
    value: MLP
    distribution: Choices | Gaussian

    @classmethod
    def create(
        cls, num_inputs: int, distribution: Choices | Gaussian, hidden: list[int], activation: str
    ) -> ActorCritic:
        """Return the networks for observations of a size and a distribution of actions."""
        num_logits = distribution.num_outputs
        if isinstance(distribution, Gaussian):
            num_logits = distribution.action_size
        return cls(
            MLP((num_inputs, *hidden, num_logits), activation),
            MLP((num_inputs, *hidden, 1), activation),
            distribution,
        )

    @property
    def num_log_std(self) -> int:
        """How many deviations are parameters of their own."""
        return self.distribution.action_size if isinstance(self.distribution, Gaussian) else 0

    @property
    def num_policy_parameters(self) -> int:
        """Length of the flat vector's part that decides how the policy acts."""
        return self.policy.num_parameters + self.num_log_std

    @property
    def num_parameters(self) -> int:
        """Length of the flat vector."""
        return self.num_policy_parameters + self.value.num_parameters

    def split(self, flat: Array) -> Parameters:
        """Return the parts of a flat vector (of parameters, a gradient or a direction) as views."""
        log_std_start = self.policy.num_parameters
        return Parameters(
            self.policy.layers(flat[:log_std_start]),
            flat[log_std_start : self.num_policy_parameters],
            self.value.layers(flat[self.num_policy_parameters :]),
        )

    def initial(self, rng: np.random.Generator) -> Array:
        """Return first values: orthogonal weights, small for the policy's last layer so that it starts even."""
        flat = np.zeros(self.num_parameters, np.float32)
        parts = self.split(flat)
        parts.log_std[:] = INITIAL_LOG_STD
        for layers, last_gain in ((parts.policy, 0.01), (parts.value, 1.0)):
            for weight, _ in layers[:-1]:
                weight[:] = _orthogonal(rng, weight.shape) * np.sqrt(2)
            layers[-1][0][:] = _orthogonal(rng, layers[-1][0].shape) * last_gain
        return flat

    def policy_outputs(self, parts: Parameters, rows: Array) -> Array:
        """Return the outputs that the distribution reads, `[B, num_outputs]`."""
        return self.with_log_std(parts, self.policy.forward(parts.policy, rows))

    def with_log_std(self, parts: Parameters, network_outputs: Array) -> Array:
        """Append the deviations to every row, where the distribution has any."""
        if not self.num_log_std:
            return network_outputs
        log_std = np.broadcast_to(parts.log_std, (len(network_outputs), self.num_log_std))
        return np.concatenate([network_outputs, log_std], axis=1)

    def values(self, parts: Parameters, rows: Array) -> Array:
        """Return the value of each row, `[B]`."""
        return self.value.forward(parts.value, rows)[:, 0]


def _orthogonal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    rows, columns = shape
    q, r = np.linalg.qr(rng.standard_normal((max(shape), min(shape))))
    q *= np.sign(np.diag(r))
    return q if rows >= columns else q.T
