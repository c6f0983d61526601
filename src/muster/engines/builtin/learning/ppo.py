"""Proximal policy optimisation (PPO): minibatch epochs on the clipped surrogate objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muster.engines.builtin.learning.adam import Adam, clip_norm, scheduled
from muster.engines.builtin.learning.batch import Batch, blocks, minibatches
from muster.engines.builtin.learning.metrics import Metrics, column_names, columns
from muster.engines.builtin.learning.policy_gradients import PolicyGradients, gradients_of
from muster.engines.builtin.learning.protocol import OnProgress, TrainState, ignore_progress
from muster.engines.builtin.networks.protocol import Networks
from muster.experiment.schema import PPOSection
from muster.policies.distributions import masked

Array = NDArray[Any]


class PPOMetrics(NamedTuple):
    """What PPO reports of an update, measured on the whole batch after it."""

    policy_loss: float
    policy_kl: float
    policy_entropy: float
    policy_clip_fraction: float
    value_loss: float
    value_explained_variance: float | None
    learner_grad_norm: float
    learner_lr: float
    learner_epochs: int


@dataclass(frozen=True)
class PPO:
    """The algorithm, with its settings.

    The probability ratio starts at 1 and is clipped around it, also when another policy has sampled the batch.
    """

    settings: PPOSection
    metrics = column_names(PPOMetrics)
    trains_torch = True

    def optimizer(self, networks: Networks) -> Adam:
        """Return Adam for all parameters."""
        return Adam.create(networks.num_parameters)

    def update(
        self,
        networks: Networks,
        state: TrainState,
        batch: Batch,
        fraction_done: float,
        on_progress: OnProgress = ignore_progress,
    ) -> Metrics:
        """Pass over the batch `num_epochs` times, or until the policy has moved by more than `target_kl`."""
        settings = self.settings
        lr = scheduled(settings.lr, settings.lr_schedule, fraction_done)
        gradient = np.empty_like(state.parameters)
        parts, gradient_parts = networks.split(state.parameters), networks.split(gradient)
        mathematics = gradients_of(networks.distribution)
        before = _Before.of(networks, parts, batch)
        shuffled = (
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
            for rows in minibatches(state.rng, settings.minibatch_size, *shuffled):
                loss_gradient(networks, parts, mathematics, settings, rows, gradient_parts)
                norms.append(clip_norm(gradient, settings.grad_clip))
                state.optimizer.step(state.parameters, gradient, lr)
            on_progress(epochs / settings.num_epochs, state.parameters)
            if settings.target_kl is not None:
                new_outputs = batch.policy_outputs(networks, parts)
                if mathematics.divergence(before.outputs, new_outputs).mean() > settings.target_kl:
                    break
        loss, kl, entropy, clip_fraction, value_loss = _means_after(networks, parts, batch, before, settings)
        return columns(
            PPOMetrics(
                policy_loss=loss,
                policy_kl=kl,
                policy_entropy=entropy,
                policy_clip_fraction=clip_fraction,
                value_loss=value_loss,
                value_explained_variance=batch.explained_variance(),
                learner_grad_norm=float(np.mean(norms)),
                learner_lr=lr,
                learner_epochs=epochs,
            )
        )


@dataclass(frozen=True)
class _Before:
    """The policy on the batch before the update, and the advantages that it learns from."""

    outputs: Array
    log_probs: Array
    advantages: Array

    @classmethod
    def of(cls, networks: Networks, parts: Any, batch: Batch) -> _Before:
        outputs = batch.policy_outputs(networks, parts)
        log_probs = networks.distribution.log_prob(outputs, batch.actions)
        return cls(outputs, log_probs, batch.corrected_advantages(log_probs))


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


def _means_after(
    networks: Networks, parts: Any, batch: Batch, before: _Before, settings: PPOSection
) -> tuple[float, ...]:
    """Return the batch means of surrogate loss, KL, entropy, clipped rows and value loss."""
    mathematics = gradients_of(networks.distribution)
    rows_before = (
        batch.observations,
        batch.masks,
        batch.actions,
        batch.returns,
        before.outputs,
        before.log_probs,
        before.advantages,
    )
    sums = np.zeros(5)
    for rows in blocks(*rows_before):
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
    return tuple((sums / len(batch)).tolist())
