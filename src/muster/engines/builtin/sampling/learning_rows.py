"""From a recording to the rows that are learned from: scaled, with values, advantages and returns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muster.engines.builtin.networks.protocol import Networks
from muster.engines.builtin.networks.row_formats import RowFormat
from muster.engines.builtin.sampling.advantages import advantages
from muster.engines.builtin.sampling.fragments import Recording, Weights
from muster.engines.engine import REWARD_CLIP
from muster.policies.scale import Scale

Array = NDArray[Any]


@dataclass(frozen=True)
class Discounting:
    """How much later rewards count: the discount per step, and the decay of the advantage estimate."""

    gamma: float
    lambda_: float


class LearningRows(NamedTuple):
    """The arrays of a fragment, with a row for each step that may be learned from."""

    observations: Array
    actions: Array
    log_probs: Array
    advantages: Array
    returns: Array
    masks: Array


def rescaled(recording: Recording, scale: Scale | None, row_format: RowFormat) -> Recording:
    """Return a recording whose observations are scaled otherwise than when they were sampled."""
    if not len(recording.raw):
        return recording
    inputs = np.empty_like(recording.inputs)
    row_format.keep(recording.raw, scale, inputs)
    return replace(recording, inputs=inputs)


def learning_rows(
    recording: Recording,
    weights: Weights,
    networks: Networks,
    row_format: RowFormat,
    discounting: Discounting,
) -> LearningRows:
    """Return what a fragment holds of a recording."""
    parts = networks.split(weights.parameters)
    length, count = recording.rewards.shape
    tails = np.empty(recording.last_rows.shape, row_format.kept_dtype)
    row_format.keep(recording.last_rows, weights.observation_scale, tails)
    flat = recording.inputs.reshape(length * count, -1)
    all_values = networks.values(parts, np.concatenate([flat, tails]))
    values = all_values[: len(flat)].reshape(length, count)
    next_values = np.concatenate([values[1:], all_values[None, len(flat) : len(flat) + count]])
    for (t, i, _), value in zip(recording.finals, all_values[len(flat) + count :], strict=True):
        next_values[t, i] = value
    next_values[recording.terminated] = 0.0
    rewards = np.clip(recording.rewards / weights.reward_std, -REWARD_CLIP, REWARD_CLIP).astype(np.float32)
    gamma, lambda_ = discounting.gamma, discounting.lambda_
    gains = advantages(rewards, values, next_values, recording.ended, gamma, lambda_)
    actions = recording.actions.reshape(length * count, -1)
    outputs = recording.outputs.reshape(length * count, -1)
    keep = recording.kept_rows
    return LearningRows(
        observations=flat[keep],
        actions=actions[keep],
        log_probs=networks.distribution.log_prob(outputs, actions)[keep],
        advantages=gains.reshape(-1)[keep],
        returns=(gains + values).reshape(-1)[keep],
        masks=recording.masks.reshape(length * count, -1)[keep],
    )
