"""Proximal policy optimisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.engines.builtin.adam import Adam
from muster.engines.builtin.batch import Batch, OnTheWay, blocks, minibatches
from muster.engines.builtin.networks import Networks
from muster.engines.builtin.policy_gradients import PolicyGradients, gradients_of
from muster.errors import NonFiniteUpdateError
from muster.experiment.schema import PPOSection
from muster.policies.distributions import masked

Array = NDArray[Any]
Metrics = dict[str, float | None]

METRICS = (
    "policy/loss",
    "policy/kl",
    "policy/entropy",
    "policy/clip_fraction",
    "value/loss",
    "value/explained_variance",
    "learner/grad_norm",
    "learner/lr",
    "learner/epochs",
)


@dataclass(frozen=True)
class _Before:
    """What the policy was on the batch before the update, and the advantages that it is to learn."""

    outputs: Array
    log_probs: Array
    advantages: Array

    @classmethod
    def of(cls, networks: Networks, parts: Any, batch: Batch) -> _Before:
        outputs = batch.policy_outputs(networks, parts)
        log_probs = networks.distribution.log_prob(outputs, batch.actions)
        return cls(outputs, log_probs, batch.corrected_advantages(log_probs))


def update(
    networks: Networks,
    parameters: Array,
    optimizer: Adam,
    batch: Batch,
    settings: PPOSection,
    lr: float,
    rng: np.random.Generator,
    on_the_way: OnTheWay = lambda _share, _parameters: None,
) -> tuple[Array, Adam, Metrics]:
    """Return parameters and optimiser after an iteration's epochs, and how it went; changes nothing given.

    The probability ratio starts at 1 and is clipped around it, also when another policy has sampled the batch.

    Raises:
        NonFiniteUpdateError: if a gradient or the result is not finite.
    """
    parameters, optimizer = parameters.copy(), optimizer.copy()
    gradient = np.empty_like(parameters)
    parts, gradient_parts = networks.split(parameters), networks.split(gradient)
    mathematics = gradients_of(networks.distribution)
    before = _Before.of(networks, parts, batch)
    columns = (
        batch.observations,
        batch.masks,
        batch.actions,
        before.log_probs,
        before.advantages,
        batch.returns,
        batch.values,
    )
    norms = []
    epochs = 0
    while epochs < settings.num_epochs:
        epochs += 1
        for rows in minibatches(rng, settings.minibatch_size, *columns):
            loss_gradient(networks, parts, mathematics, settings, rows, gradient_parts)
            norms.append(_clip(gradient, settings.grad_clip))
            optimizer.step(parameters, gradient, lr)
        on_the_way(epochs / settings.num_epochs, parameters)
        if settings.target_kl is not None:
            new_outputs = batch.policy_outputs(networks, parts)
            if mathematics.divergence(before.outputs, new_outputs).mean() > settings.target_kl:
                break
    metrics = _metrics(networks, parts, mathematics, batch, before, settings)
    metrics |= {"learner/grad_norm": float(np.mean(norms)), "learner/lr": lr, "learner/epochs": epochs}
    if not np.isfinite(parameters).all():
        raise NonFiniteUpdateError("the update made weights that are not finite")
    return parameters, optimizer, metrics


def loss_gradient(
    networks: Networks,
    parts: Any,
    mathematics: PolicyGradients,
    settings: PPOSection,
    rows: tuple[Array, ...],
    out: Any,
) -> None:
    """Write the gradient of the loss on a minibatch to `out`, `rows` being the batch's columns."""
    observations, masks, actions, old_log_probs, advantages, returns, old_values = rows
    outputs, values, pull_back = networks.differentiate(parts, observations)
    outputs = masked(outputs, masks)
    log_probs, at_outputs = mathematics.log_prob(outputs, actions)
    ratio = np.exp(log_probs - old_log_probs)
    change = ratio - 1
    towards = np.copysign(change, change * advantages)
    weight = advantages * ratio
    weight *= towards <= settings.clip_param
    weight /= -len(ratio)
    at_outputs *= weight[:, None]
    if settings.entropy_coeff:
        at_outputs -= (settings.entropy_coeff / len(ratio)) * mathematics.entropy_gradient(outputs)
    pull_back(at_outputs, value_loss_gradient(values, returns, old_values, settings), out)


def value_loss_gradient(values: Array, returns: Array, old_values: Array, settings: PPOSection) -> Array:
    """Return the gradient of the values' loss at the values."""
    error = values - returns
    if settings.vf_clip_param is not None:
        change = values - old_values
        clipped_error = old_values + np.clip(change, -settings.vf_clip_param, settings.vf_clip_param) - returns
        moving = (np.abs(change) <= settings.vf_clip_param) | (error**2 > clipped_error**2)
        error = error * moving
    error *= settings.vf_loss_coeff / len(error)
    return error


def _clip(gradient: Array, largest: float | None) -> float:
    """Scale the gradient down to the largest norm, in place; return the norm it had."""
    norm = float(np.sqrt(gradient @ gradient))
    if not np.isfinite(norm):
        raise NonFiniteUpdateError("a gradient is not finite")
    if largest is not None and norm > largest:
        gradient *= largest / norm
    return norm


def _metrics(
    networks: Networks,
    parts: Any,
    mathematics: PolicyGradients,
    batch: Batch,
    before: _Before,
    settings: PPOSection,
) -> Metrics:
    columns = (
        batch.observations,
        batch.masks,
        batch.actions,
        batch.returns,
        before.outputs,
        before.log_probs,
        before.advantages,
    )
    sums = np.zeros(5)
    for rows in blocks(*columns):
        observations, masks, actions, returns, old_outputs, old_log_probs, advantages = rows
        outputs = masked(networks.policy_outputs(parts, observations), masks)
        ratio = np.exp(networks.distribution.log_prob(outputs, actions) - old_log_probs)
        clipped = np.clip(ratio, 1 - settings.clip_param, 1 + settings.clip_param)
        sums += (
            -np.minimum(ratio * advantages, clipped * advantages).sum(),
            mathematics.divergence(old_outputs, outputs).sum(),
            mathematics.entropy(outputs).sum(),
            (np.abs(ratio - 1) > settings.clip_param).sum(),
            0.5 * ((networks.values(parts, observations) - returns) ** 2).sum(),
        )
    names = ("policy/loss", "policy/kl", "policy/entropy", "policy/clip_fraction", "value/loss")
    means = dict(zip(names, (sums / len(batch)).tolist(), strict=True))
    return {**means, "value/explained_variance": batch.explained_variance()}
