"""Trust-region policy optimisation of the built-in network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.engines.builtin.actor_critic import ActorCritic, Parameters
from muster.engines.builtin.adam import Adam
from muster.engines.builtin.backpropagation import Activations, along, backward, forward
from muster.engines.builtin.batch import Batch, OnTheWay, blocks, minibatches
from muster.engines.builtin.policy_gradients import gradients_of
from muster.engines.builtin.trust_region import conjugate_gradient, line_search
from muster.errors import NonFiniteUpdateError
from muster.experiment.schema import TRPOSection
from muster.policies.distributions import masked

Array = NDArray[Any]
Metrics = dict[str, float | None]

METRICS = (
    "policy/improvement",
    "policy/kl",
    "policy/entropy",
    "policy/step_fraction",
    "value/loss",
    "value/explained_variance",
    "learner/grad_norm",
)


def update(
    networks: ActorCritic,
    parameters: Array,
    optimizer: Adam,
    batch: Batch,
    settings: TRPOSection,
    rng: np.random.Generator,
    on_the_way: OnTheWay = lambda _share, _parameters: None,
) -> tuple[Array, Adam, Metrics]:
    """Return parameters and value optimiser after one update, and how it went; changes nothing given.

    When it tells of what is on the way, the policy is what it will be; only the values are still to be fitted.

    Raises:
        NonFiniteUpdateError: if a gradient or the result is not finite.
    """
    parameters, optimizer = parameters.copy(), optimizer.copy()
    metrics: Metrics = {"value/explained_variance": batch.explained_variance()}
    metrics |= _improve_policy(networks, parameters, batch, settings)
    on_the_way(1.0, parameters)
    metrics |= _fit_values(networks, parameters, optimizer, batch, settings, rng)
    if not np.isfinite(parameters).all():
        raise NonFiniteUpdateError("the update made weights that are not finite")
    return parameters, optimizer, metrics


@dataclass(frozen=True)
class Linearised:
    """The policy on some rows at its parameters: its outputs, and how these move with the parameters."""

    networks: ActorCritic
    parts: Parameters
    activations: Activations
    outputs: Array

    @classmethod
    def at(cls, networks: ActorCritic, parts: Parameters, rows: Array, masks: Array) -> Linearised:
        """Pass through the network once, for all that follows."""
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
        if not networks.distribution.num_numbers:
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


def _improve_policy(networks: ActorCritic, parameters: Array, batch: Batch, settings: TRPOSection) -> Metrics:
    """Take one natural-gradient step within the trust region, in place."""
    end = networks.num_policy_parameters
    mathematics = gradients_of(networks.distribution)
    pieces = linearise(networks, parameters, batch)
    old_outputs = np.concatenate([piece.outputs for piece in pieces])
    old_log_probs, at_outputs = mathematics.log_prob(old_outputs, batch.actions)
    advantages = batch.corrected_advantages(old_log_probs)

    def outputs_at(policy_parameters: Array) -> Array:
        parts = networks.split(np.concatenate([policy_parameters, parameters[end:]]))
        return batch.policy_outputs(networks, parts)

    def evaluate(candidate: Array) -> tuple[float, float]:
        outputs = outputs_at(candidate)
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
    return {
        "policy/improvement": step.improvement,
        "policy/kl": step.divergence,
        "policy/entropy": float(mathematics.entropy(outputs_at(step.point)).mean()),
        "policy/step_fraction": step.fraction,
        "learner/grad_norm": norm,
    }


def _fit_values(
    networks: ActorCritic,
    parameters: Array,
    optimizer: Adam,
    batch: Batch,
    settings: TRPOSection,
    rng: np.random.Generator,
) -> Metrics:
    """Fit the value network to the returns, in place."""
    start = networks.num_policy_parameters
    gradient = np.zeros_like(parameters)
    layers, gradient_layers = networks.split(parameters).value, networks.split(gradient).value
    for _ in range(settings.num_epochs):
        for observations, returns in minibatches(rng, settings.minibatch_size, batch.observations, batch.returns):
            values, activations = forward(networks.value, layers, observations)
            error = (values[:, 0] - returns) / len(returns)
            backward(layers, activations, error[:, None], gradient_layers)
            optimizer.step(parameters[start:], gradient[start:], settings.lr)
    values = batch.new_values(networks, networks.split(parameters))
    return {"value/loss": 0.5 * float(((values - batch.returns) ** 2).mean())}
