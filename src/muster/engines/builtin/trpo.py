"""Trust-region policy optimisation of the built-in network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.engines.builtin.actor_critic import ActorCritic
from muster.engines.builtin.adam import Adam
from muster.engines.builtin.backpropagation import along, backward, forward
from muster.engines.builtin.batch import Batch, minibatches
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
) -> tuple[Array, Adam, Metrics]:
    """Return parameters and value optimiser after one update, and how it went; changes nothing given.

    Raises:
        NonFiniteUpdateError: if a gradient or the result is not finite.
    """
    parameters, optimizer = parameters.copy(), optimizer.copy()
    metrics: Metrics = {"value/explained_variance": batch.explained_variance()}
    metrics |= _improve_policy(networks, parameters, batch, settings)
    metrics |= _fit_values(networks, parameters, optimizer, batch, settings, rng)
    if not np.isfinite(parameters).all():
        raise NonFiniteUpdateError("the update made weights that are not finite")
    return parameters, optimizer, metrics


def _improve_policy(networks: ActorCritic, parameters: Array, batch: Batch, settings: TRPOSection) -> Metrics:
    """Take one natural-gradient step within the trust region, in place."""
    end = networks.num_policy_parameters
    mathematics = gradients_of(networks.distribution)
    old_outputs = _outputs(networks, parameters, batch)
    old_log_probs = networks.distribution.log_prob(old_outputs, batch.actions)
    advantages = batch.corrected_advantages(old_log_probs)

    def evaluate(candidate: Array) -> tuple[float, float]:
        moved = np.concatenate([candidate, parameters[end:]])
        outputs = _outputs(networks, moved, batch)
        ratio = np.exp(networks.distribution.log_prob(outputs, batch.actions) - old_log_probs)
        improvement = float((ratio * advantages).mean() - advantages.mean())
        return improvement, float(mathematics.divergence(old_outputs, outputs).mean())

    gradient = _surrogate_gradient(networks, parameters, batch, advantages)
    norm = float(np.linalg.norm(gradient))
    if not np.isfinite(norm):
        raise NonFiniteUpdateError("the policy's gradient is not finite")
    product = fisher_vector_product(networks, parameters, batch, settings.cg_damping)
    direction = conjugate_gradient(product, gradient, settings.cg_iterations)
    curvature = float(direction @ product(direction))
    length = np.sqrt(2 * settings.target_kl / curvature) if curvature > 0 else 0.0
    parameters[:end], fraction = line_search(
        evaluate, parameters[:end], length * direction, settings.target_kl, settings.line_search_steps
    )
    improvement, divergence = evaluate(parameters[:end])
    outputs = _outputs(networks, parameters, batch)
    return {
        "policy/improvement": improvement,
        "policy/kl": divergence,
        "policy/entropy": float(mathematics.entropy(outputs)[0].mean()),
        "policy/step_fraction": fraction,
        "learner/grad_norm": norm,
    }


def _outputs(networks: ActorCritic, parameters: Array, batch: Batch) -> Array:
    return masked(networks.policy_outputs(networks.split(parameters), batch.observations), batch.masks)


def _surrogate_gradient(networks: ActorCritic, parameters: Array, batch: Batch, advantages: Array) -> Array:
    """Return the gradient of the expected advantage, for the policy's part of the parameters."""
    parts = networks.split(parameters)
    network_outputs, activations = forward(networks.policy, parts.policy, batch.observations)
    outputs = masked(networks.with_log_std(parts, network_outputs, activations[-1]), batch.masks)
    _, at_outputs = gradients_of(networks.distribution).log_prob(outputs, batch.actions)
    at_outputs *= (advantages / len(advantages))[:, None]
    return _to_parameters(networks, parameters, activations, at_outputs)


def fisher_vector_product(
    networks: ActorCritic, parameters: Array, batch: Batch, damping: float
) -> Callable[[Array], Array]:
    """Return v -> (F + damping) v, F being the policy's mean Fisher matrix over the batch."""
    parts = networks.split(parameters)
    network_outputs, activations = forward(networks.policy, parts.policy, batch.observations)
    outputs = masked(networks.with_log_std(parts, network_outputs, activations[-1]), batch.masks)
    mathematics = gradients_of(networks.distribution)

    def product(vector: Array) -> Array:
        full = np.zeros_like(parameters)
        full[: networks.num_policy_parameters] = vector
        direction = networks.split(full)
        change = along(networks.policy, parts.policy, activations, direction.policy)
        if networks.distribution.num_numbers:
            log_std_change = networks.log_std_change(parts, direction, activations[-1])
            change = np.concatenate([change, log_std_change], axis=1)
        at_outputs = mathematics.fisher_product(outputs, change)
        at_outputs /= len(batch)
        return _to_parameters(networks, parameters, activations, at_outputs) + damping * vector

    return product


def _to_parameters(networks: ActorCritic, parameters: Array, activations: list[Array], at_outputs: Array) -> Array:
    """Carry a gradient at the policy's outputs back to its parameters, in double precision."""
    gradient = np.zeros_like(parameters)
    networks.policy_gradient(networks.split(parameters), activations, at_outputs, networks.split(gradient))
    return gradient[: networks.num_policy_parameters].astype(np.float64)


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
            backward(networks.value, layers, activations, error[:, None], gradient_layers)
            optimizer.step(parameters[start:], gradient[start:], settings.lr)
    values = networks.values(networks.split(parameters), batch.observations)
    return {"value/loss": 0.5 * float(((values - batch.returns) ** 2).mean())}
