"""Log-probability, entropy and divergence of a policy's outputs, with their derivatives at the outputs."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from muster.policies.distributions import Choices, Gaussian, log_softmax

Array = NDArray[Any]


class PolicyGradients(Protocol):
    """The mathematics of one kind of distribution; every array has a row per step."""

    def log_prob_gradient(self, outputs: Array, actions: Array) -> Array:
        """Return the derivative of each action's log-probability, `[B, num_outputs]`."""

    def entropy(self, outputs: Array) -> tuple[Array, Array]:
        """Return the entropy `[B]` and its derivative."""

    def divergence(self, old: Array, new: Array) -> Array:
        """Return KL(old || new), `[B]`."""

    def fisher_product(self, outputs: Array, change: Array) -> Array:
        """Return the Fisher matrix at the outputs times a change of them."""


class ChoicesGradients:
    """Independent choices, with a segment of logits each."""

    def __init__(self, distribution: Choices) -> None:
        self._segments = distribution.segments

    def log_prob_gradient(self, outputs: Array, actions: Array) -> Array:
        gradient = np.empty_like(outputs)
        rows = np.arange(len(outputs))
        for i, segment in enumerate(self._segments):
            gradient[:, segment] = -np.exp(log_softmax(outputs[:, segment]))
            gradient[rows, segment.start + actions[:, i]] += 1.0
        return gradient

    def entropy(self, outputs: Array) -> tuple[Array, Array]:
        total = np.zeros(len(outputs), outputs.dtype)
        gradient = np.empty_like(outputs)
        for segment in self._segments:
            log_p = log_softmax(outputs[:, segment])
            p = np.exp(log_p)
            entropy = -(p * log_p).sum(axis=1)
            gradient[:, segment] = -p * (log_p + entropy[:, None])
            total += entropy
        return total, gradient

    def divergence(self, old: Array, new: Array) -> Array:
        total = np.zeros(len(old), old.dtype)
        for segment in self._segments:
            log_old, log_new = log_softmax(old[:, segment]), log_softmax(new[:, segment])
            total += (np.exp(log_old) * (log_old - log_new)).sum(axis=1)
        return total

    def fisher_product(self, outputs: Array, change: Array) -> Array:
        product = np.empty_like(outputs)
        for segment in self._segments:
            p = np.exp(log_softmax(outputs[:, segment]))
            weighted = p * change[:, segment]
            product[:, segment] = weighted - p * weighted.sum(axis=1, keepdims=True)
        return product


class GaussianGradients:
    """Independent normal numbers; outputs are means, then logarithms of deviations."""

    def __init__(self, distribution: Gaussian) -> None:
        self._split = distribution.split

    def log_prob_gradient(self, outputs: Array, actions: Array) -> Array:
        mean, log_std = self._split(outputs)
        inverse_std = np.exp(-log_std)
        standardised = (actions - mean) * inverse_std
        return np.concatenate([standardised * inverse_std, standardised**2 - 1.0], axis=1)

    def entropy(self, outputs: Array) -> tuple[Array, Array]:
        _, log_std = self._split(outputs)
        gradient = np.concatenate([np.zeros_like(log_std), np.ones_like(log_std)], axis=1)
        return (log_std + 0.5 * np.log(2 * np.pi * np.e)).sum(axis=1), gradient

    def divergence(self, old: Array, new: Array) -> Array:
        old_mean, old_log_std = self._split(old)
        new_mean, new_log_std = self._split(new)
        spread = np.exp(2 * old_log_std) + (old_mean - new_mean) ** 2
        kl: Array = (new_log_std - old_log_std + 0.5 * spread * np.exp(-2 * new_log_std) - 0.5).sum(axis=1)
        return kl

    def fisher_product(self, outputs: Array, change: Array) -> Array:
        _, log_std = self._split(outputs)
        mean_change, log_std_change = self._split(change)
        return np.concatenate([mean_change * np.exp(-2 * log_std), 2.0 * log_std_change], axis=1)


def gradients_of(distribution: Choices | Gaussian) -> PolicyGradients:
    """Return the mathematics of a distribution."""
    if isinstance(distribution, Gaussian):
        return GaussianGradients(distribution)
    return ChoicesGradients(distribution)
