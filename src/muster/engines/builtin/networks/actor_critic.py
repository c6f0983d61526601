"""The built-in policy and value networks as one flat vector: layout, initialisation, outputs, derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.engines.builtin.networks.backpropagation import Activations, backward, forward
from muster.engines.builtin.networks.protocol import PullBack
from muster.engines.builtin.networks.row_formats import dense, factor
from muster.policies import state_dependent
from muster.policies.distributions import AnyDistribution
from muster.policies.interface import Interface
from muster.policies.mlp import MLP, Layers
from muster.policies.mlp_policy import MLPPolicy

Array = NDArray[Any]

INITIAL_LOG_STD = -0.5
"""Initial log standard deviation of continuous actions."""

INITIAL_STATE_DEPENDENT_LOG_STD = -2.0


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
    distribution: AnyDistribution
    state_dependent: bool = False
    log_std_init: float | None = None

    @classmethod
    def create(
        cls, num_inputs: int, distribution: AnyDistribution, hidden: list[int], activation: str
    ) -> ActorCritic:
        """Return the networks for observations of a size and a distribution of actions."""
        num_network_outputs = distribution.num_outputs - distribution.num_continuous
        return cls(
            MLP((num_inputs, *hidden, num_network_outputs), activation),
            MLP((num_inputs, *hidden, 1), activation),
            distribution,
        )

    @cached_property
    def log_std_shape(self) -> tuple[int, ...]:
        """Shape of the log standard deviations: one per continuous action, or per feature and action."""
        count = self.distribution.num_continuous
        return (self.policy.sizes[-2], count) if self.state_dependent else (count,)

    @cached_property
    def num_policy_parameters(self) -> int:
        """Length of the policy's part of the flat vector, which comes first."""
        return self.policy.num_parameters + int(np.prod(self.log_std_shape))

    @cached_property
    def num_parameters(self) -> int:
        """Length of the flat vector."""
        return self.num_policy_parameters + self.value.num_parameters

    def split(self, flat: Array) -> Parameters:
        """Return the parts of a flat vector (of parameters, a gradient or a direction) as views."""
        log_std_start = self.policy.num_parameters
        return Parameters(
            self.policy.layers(flat[:log_std_start]),
            flat[log_std_start : self.num_policy_parameters].reshape(self.log_std_shape),
            self.value.layers(flat[self.num_policy_parameters :]),
        )

    def initial(self, rng: np.random.Generator) -> Array:
        """Return initial parameters: orthogonal weights, small in the policy's last layer for an even start."""
        flat = np.zeros(self.num_parameters, np.float32)
        parts = self.split(flat)
        default = INITIAL_STATE_DEPENDENT_LOG_STD if self.state_dependent else INITIAL_LOG_STD
        parts.log_std[:] = default if self.log_std_init is None else self.log_std_init
        for layers, last_gain in ((parts.policy, 0.01), (parts.value, 1.0)):
            for weight, _ in layers[:-1]:
                weight[:] = _orthogonal(rng, weight.shape) * np.sqrt(2)
            layers[-1][0][:] = _orthogonal(rng, layers[-1][0].shape) * last_gain
        return flat

    def policy_outputs(self, parts: Parameters, rows: Array) -> Array:
        """Return the outputs that the distribution reads, `[B, num_outputs]`."""
        features = self.features(parts, rows)
        return self.with_log_std(parts, self.policy.last(parts.policy, features), features)

    def features(self, parts: Parameters, rows: Array) -> Array:
        """Return what the policy's last layer reads, for rows of any format."""
        return self.policy.features(parts.policy, factor(rows))

    def with_log_std(self, parts: Parameters, network_outputs: Array, features: Array) -> Array:
        """Append the log standard deviations to every row, if there are continuous actions."""
        if not self.distribution.num_continuous:
            return network_outputs
        if self.state_dependent:
            log_std = state_dependent.log_std_at(features, parts.log_std)
        else:
            log_std = np.broadcast_to(parts.log_std, (len(network_outputs), len(parts.log_std)))
        return np.concatenate([network_outputs, log_std], axis=1)

    def log_std_change(self, parts: Parameters, direction: Parameters, features: Array) -> Array:
        """Return how each row's log standard deviations change when the parameters move along a direction."""
        if self.state_dependent:
            return state_dependent.push_forward(features, parts.log_std, direction.log_std)
        return np.broadcast_to(direction.log_std, (len(features), len(direction.log_std)))

    def policy_gradient(
        self, parts: Parameters, activations: Activations, at_outputs: Array, out: Parameters
    ) -> None:
        """Propagate a gradient at the policy's outputs back to its parameters, into `out`."""
        num_network_outputs = self.policy.sizes[-1]
        backward(parts.policy, activations, at_outputs[:, :num_network_outputs], out.policy)
        at_log_std = at_outputs[:, num_network_outputs:]
        if self.state_dependent:
            out.log_std[:] = state_dependent.pull_back(activations.features, parts.log_std, at_log_std)
        else:
            out.log_std[:] = at_log_std.sum(axis=0)

    def values(self, parts: Parameters, rows: Array) -> Array:
        """Return the value of each row, `[B]`."""
        return self.value.forward(parts.value, factor(rows))[:, 0]

    def policy_with(self, parameters: Array, interface: Interface) -> MLPPolicy:
        """Return the policy with these parameters, at an interface to the simulator."""
        parts = self.split(parameters)
        log_std = parts.log_std if self.distribution.num_continuous else None
        spaces = interface.observations, interface.actions
        return MLPPolicy(*spaces, self.policy, parts.policy, interface.scale, log_std)

    def differentiate(self, parts: Parameters, rows: Array) -> tuple[Array, Array, PullBack]:
        """Return outputs and values, and the function that propagates gradients at them back to the parameters."""
        dense_rows = dense(rows, self.policy.sizes[0])
        network_outputs, activations = forward(self.policy, parts.policy, rows, dense_rows)
        outputs = self.with_log_std(parts, network_outputs, activations.features)
        values, value_activations = forward(self.value, parts.value, rows, dense_rows)

        def pull_back(at_outputs: Array, at_values: Array, out: Parameters) -> None:
            self.policy_gradient(parts, activations, at_outputs, out)
            backward(parts.value, value_activations, at_values[:, None], out.value)

        return outputs, values[:, 0], pull_back


def _orthogonal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    rows, columns = shape
    q, r = np.linalg.qr(rng.standard_normal((max(shape), min(shape))))
    q *= np.sign(np.diag(r))
    return q if rows >= columns else q.T
