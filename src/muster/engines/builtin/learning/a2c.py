"""Advantage actor-critic (A2C): one gradient step on each batch, then the batch is done with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muster.engines.builtin.learning.adam import Adam, clip_norm, scheduled
from muster.engines.builtin.learning.batch import Batch, blocks
from muster.engines.builtin.learning.metrics import Metrics, column_names, columns
from muster.engines.builtin.learning.policy_gradients import gradients_of
from muster.engines.builtin.learning.protocol import OnProgress, TrainState, ignore_progress
from muster.engines.builtin.networks.protocol import Networks
from muster.experiment.schema import A2CSection
from muster.policies.distributions import masked

Array = NDArray[Any]


class A2CMetrics(NamedTuple):
    """What A2C reports of an update, measured on the whole batch before it."""

    policy_loss: float
    policy_entropy: float
    value_loss: float
    value_explained_variance: float | None
    learner_grad_norm: float
    learner_lr: float


@dataclass(frozen=True)
class A2C:
    """The algorithm, with its settings."""

    settings: A2CSection
    metrics = column_names(A2CMetrics)
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
        """Take one step along the gradient of the whole batch."""
        lr = scheduled(self.settings.lr, self.settings.lr_schedule, fraction_done)
        gradient, (loss, entropy, value_loss) = loss_gradient(networks, state.parameters, batch, self.settings)
        norm = clip_norm(gradient, self.settings.grad_clip)
        state.optimizer.step(state.parameters, gradient, lr)
        on_progress(1.0, state.parameters)
        return columns(
            A2CMetrics(
                policy_loss=loss,
                policy_entropy=entropy,
                value_loss=value_loss,
                value_explained_variance=batch.explained_variance(),
                learner_grad_norm=norm,
                learner_lr=lr,
            )
        )


def loss_gradient(
    networks: Networks, parameters: Array, batch: Batch, settings: A2CSection
) -> tuple[Array, tuple[float, ...]]:
    """Return the gradient of the loss on a batch, and the means of policy loss, entropy and value loss.

    The gradients of the blocks are added up, so that a batch may be larger than memory for one pass allows.
    """
    gradient, of_block = np.zeros_like(parameters), np.empty_like(parameters)
    parts, block_parts = networks.split(parameters), networks.split(of_block)
    mathematics = gradients_of(networks.distribution)
    log_probs = networks.distribution.log_prob(batch.policy_outputs(networks, parts), batch.actions)
    gains = batch.corrected_advantages(log_probs)
    sums = np.zeros(3)
    for rows in blocks(batch.observations, batch.masks, batch.actions, gains, batch.returns):
        observations, masks, actions, advantages, returns = rows
        outputs, values, pull_back = networks.differentiate(parts, observations)
        outputs = masked(outputs, masks)
        new_log_probs, at_outputs = mathematics.log_prob(outputs, actions)
        errors = values - returns
        sums += (
            -(advantages * new_log_probs).sum(),
            mathematics.entropy(outputs).sum(),
            0.5 * (errors**2).sum(),
        )
        at_outputs *= (advantages / -len(batch))[:, None]
        if settings.entropy_coeff:
            at_outputs -= (settings.entropy_coeff / len(batch)) * mathematics.entropy_gradient(outputs)
        pull_back(at_outputs, errors * (settings.vf_loss_coeff / len(batch)), block_parts)
        gradient += of_block
    return gradient, tuple((sums / len(batch)).tolist())
