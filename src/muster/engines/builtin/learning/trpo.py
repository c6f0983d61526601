"""Trust-region policy optimisation (TRPO) of the built-in network: natural gradient, then a line search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muster.engines.builtin.learning.adam import Adam
from muster.engines.builtin.learning.batch import Batch, blocks, minibatches
from muster.engines.builtin.learning.metrics import Metrics, column_names, columns
from muster.engines.builtin.learning.policy_gradients import gradients_of
from muster.engines.builtin.learning.protocol import OnProgress, TrainState, ignore_progress
from muster.engines.builtin.learning.trust_region import Step, conjugate_gradient, line_search
from muster.engines.builtin.networks.actor_critic import ActorCritic, Parameters
from muster.engines.builtin.networks.backpropagation import Activations, along, backward, forward
from muster.engines.builtin.networks.protocol import Networks
from muster.errors import NonFiniteUpdateError
from muster.experiment.schema import TRPOSection
from muster.policies.distributions import masked

Array = NDArray[Any]


class TRPOMetrics(NamedTuple):
    """What TRPO reports of an update."""

    policy_improvement: float
    policy_kl: float
    policy_entropy: float
    policy_step_fraction: float
    value_loss: float
    value_explained_variance: float | None
    learner_grad_norm: float


@dataclass(frozen=True)
class TRPO:
    """The algorithm, with its settings; the optimiser fits the value network alone."""

    settings: TRPOSection
    metrics = column_names(TRPOMetrics)
    trains_torch = False

    def optimizer(self, networks: Networks) -> Adam:
        """Return Adam for the value network."""
        assert isinstance(networks, ActorCritic)
        return Adam.create(networks.num_parameters - networks.num_policy_parameters)

    def update(
        self,
        networks: Networks,
        state: TrainState,
        batch: Batch,
        fraction_done: float,
        on_progress: OnProgress = ignore_progress,
    ) -> Metrics:
        """Take one step of the policy, then fit the values; progress is reported in between."""
        assert isinstance(networks, ActorCritic)
        step, norm = _improve_policy(networks, state.parameters, batch, self.settings)
        on_progress(1.0, state.parameters)
        _fit_values(networks, state, batch, self.settings)
        parts = networks.split(state.parameters)
        entropy = gradients_of(networks.distribution).entropy(batch.policy_outputs(networks, parts))
        errors = batch.new_values(networks, parts) - batch.returns
        return columns(
            TRPOMetrics(
                policy_improvement=step.improvement,
                policy_kl=step.divergence,
                policy_entropy=float(entropy.mean()),
                policy_step_fraction=step.fraction,
                value_loss=0.5 * float((errors**2).mean()),
                value_explained_variance=batch.explained_variance(),
                learner_grad_norm=norm,
            )
        )


@dataclass(frozen=True)
class Linearised:
    """The policy on some rows, linearised at its parameters: its outputs, and how these change with them."""

    networks: ActorCritic
    parts: Parameters
    activations: Activations
    outputs: Array

    @classmethod
    def at(cls, networks: ActorCritic, parts: Parameters, rows: Array, masks: Array) -> Linearised:
        """Pass the rows through the network once."""
        network_outputs, activations = forward(networks.policy, parts.policy, rows)
        outputs = masked(networks.with_log_std(parts, network_outputs, activations.features), masks)
        return cls(networks, parts, activations, outputs)

    def push_forward(self, vector: Array) -> Array:
        """Return how the outputs change when the policy's parameters move along a vector."""
        networks = self.networks
        full = np.zeros(networks.num_parameters, self.outputs.dtype)
        full[: networks.num_policy_parameters] = vector
        direction = networks.split(full)
        change = along(self.parts.policy, self.activations, direction.policy)
        if not networks.distribution.num_continuous:
            return change
        log_std_change = networks.log_std_change(self.parts, direction, self.activations.features)
        return np.concatenate([change, log_std_change], axis=1)

    def pull_back(self, at_outputs: Array) -> Array:
        """Carry a gradient at the outputs back to the policy's parameters, in double precision."""
        networks = self.networks
        gradient = np.zeros(networks.num_parameters, self.outputs.dtype)
        networks.policy_gradient(self.parts, self.activations, at_outputs, networks.split(gradient))
        return gradient[: networks.num_policy_parameters].astype(np.float64)

    def times_fisher(self, vector: Array) -> Array:
        """Return the policy's Fisher matrix, summed over the rows, times a vector."""
        return self.pull_back(self._fisher(self.push_forward(vector)))

    @cached_property
    def _fisher(self) -> Callable[[Array], Array]:
        return gradients_of(self.networks.distribution).fisher(self.outputs)


def linearise(networks: ActorCritic, parameters: Array, batch: Batch) -> list[Linearised]:
    """Return the policy on each block of a batch."""
    parts = networks.split(parameters)
    return [Linearised.at(networks, parts, *rows) for rows in blocks(batch.observations, batch.masks)]


def fisher_vector_product(pieces: Sequence[Linearised], damping: float) -> Callable[[Array], Array]:
    """Return v -> (F + damping) v, F being the policy's mean Fisher matrix over all rows."""
    num_rows = sum(len(piece.outputs) for piece in pieces)

    def product(vector: Array) -> Array:
        total: Array = np.sum([piece.times_fisher(vector) for piece in pieces], axis=0)
        return total / num_rows + damping * vector

    return product


def _improve_policy(
    networks: ActorCritic, parameters: Array, batch: Batch, settings: TRPOSection
) -> tuple[Step, float]:
    """Take one natural-gradient step within the trust region, in place; return it and the gradient's norm."""
    end = networks.num_policy_parameters
    mathematics = gradients_of(networks.distribution)
    pieces = linearise(networks, parameters, batch)
    old_outputs = np.concatenate([piece.outputs for piece in pieces])
    old_log_probs, at_outputs = mathematics.log_prob(old_outputs, batch.actions)
    advantages = batch.corrected_advantages(old_log_probs)

    def evaluate(candidate: Array) -> tuple[float, float]:
        parts = networks.split(np.concatenate([candidate, parameters[end:]]))
        outputs = batch.policy_outputs(networks, parts)
        ratio = np.exp(networks.distribution.log_prob(outputs, batch.actions) - old_log_probs)
        improvement = float((ratio * advantages).mean() - advantages.mean())
        return improvement, float(mathematics.divergence(old_outputs, outputs).mean())

    at_outputs *= (advantages / len(advantages))[:, None]
    pulled = [piece.pull_back(at) for piece, (at,) in zip(pieces, blocks(at_outputs), strict=True)]
    gradient = np.sum(pulled, axis=0)
    norm = float(np.linalg.norm(gradient))
    if not np.isfinite(norm):
        raise NonFiniteUpdateError("the policy's gradient is not finite")
    product = fisher_vector_product(pieces, settings.cg_damping)
    direction = conjugate_gradient(product, gradient, settings.cg_iterations)
    curvature = float(direction @ product(direction))
    length = np.sqrt(2 * settings.target_kl / curvature) if curvature > 0 else 0.0
    step = line_search(
        evaluate, parameters[:end], length * direction, settings.target_kl, settings.line_search_steps
    )
    parameters[:end] = step.point
    return step, norm


def _fit_values(networks: ActorCritic, state: TrainState, batch: Batch, settings: TRPOSection) -> None:
    """Fit the value network to the returns, in place."""
    start = networks.num_policy_parameters
    parameters = state.parameters
    gradient = np.zeros_like(parameters)
    layers, gradient_layers = networks.split(parameters).value, networks.split(gradient).value
    for _ in range(settings.num_epochs):
        for observations, returns in minibatches(
            state.rng, settings.minibatch_size, batch.observations, batch.returns
        ):
            values, activations = forward(networks.value, layers, observations)
            error = (values[:, 0] - returns) / len(returns)
            backward(layers, activations, error[:, None], gradient_layers)
            state.optimizer.step(parameters[start:], gradient[start:], settings.lr)
