"""Log-probability, entropy and divergence of a policy's outputs, with their derivatives at the outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from muster.policies.distributions import AnyDistribution, Categorical, Gaussian, Mixed, log_softmax

Array = NDArray[Any]


class PolicyGradients(Protocol):
    """Log-probability, entropy, divergence and curvature of one distribution; every array has a row per step."""

    def log_prob(self, outputs: Array, actions: Array) -> tuple[Array, Array]:
        """Return each action's log-probability `[B]` and its derivative, `[B, num_outputs]`."""

    def entropy(self, outputs: Array) -> Array:
        """Return the entropy, `[B]`."""

    def entropy_gradient(self, outputs: Array) -> Array:
        """Return the entropy's derivative."""

    def divergence(self, old: Array, new: Array) -> Array:
        """Return KL(old || new), `[B]`."""

    def fisher(self, outputs: Array) -> Callable[[Array], Array]:
        """Return the function that multiplies a change of the outputs by the Fisher matrix at these outputs."""


class CategoricalGradients:
    """Independent discrete actions, with a segment of logits each.

    Sums over a few logits are many times faster where those of all rows lie side by side.
    """

    def __init__(self, distribution: Categorical) -> None:
        self._segments = distribution.segments

    def log_prob(self, outputs: Array, actions: Array) -> tuple[Array, Array]:
        logits = np.ascontiguousarray(outputs.T)
        gradient = np.empty_like(logits)
        total = np.zeros(len(outputs), outputs.dtype)
        rows = np.arange(len(outputs))
        for i, segment in enumerate(self._segments):
            shifted = logits[segment] - logits[segment].max(axis=0)
            exponentials = np.exp(shifted)
            sums = exponentials.sum(axis=0)
            chosen = actions[:, i] * len(rows) + rows
            total += shifted.take(chosen)
            total -= np.log(sums)
            slope = np.divide(exponentials, -sums, out=gradient[segment])
            slope.reshape(-1)[chosen] += 1.0
        return total, gradient.T

    def entropy(self, outputs: Array) -> Array:
        total = np.zeros(len(outputs), outputs.dtype)
        for segment in self._segments:
            log_p = log_softmax(outputs[:, segment])
            total -= (np.exp(log_p) * log_p).sum(axis=1)
        return total

    def entropy_gradient(self, outputs: Array) -> Array:
        gradient = np.empty_like(outputs)
        for segment in self._segments:
            log_p = log_softmax(outputs[:, segment])
            p = np.exp(log_p)
            gradient[:, segment] = p * ((p * log_p).sum(axis=1, keepdims=True) - log_p)
        return gradient

    def divergence(self, old: Array, new: Array) -> Array:
        total = np.zeros(len(old), old.dtype)
        for segment in self._segments:
            log_old, log_new = log_softmax(old[:, segment]), log_softmax(new[:, segment])
            total += (np.exp(log_old) * (log_old - log_new)).sum(axis=1)
        return total

    def fisher(self, outputs: Array) -> Callable[[Array], Array]:
        probabilities = np.empty_like(outputs, order="C")
        for segment in self._segments:
            np.exp(log_softmax(outputs[:, segment]), out=probabilities[:, segment])

        def product(change: Array) -> Array:
            result = np.empty_like(change)
            for segment in self._segments:
                p, moved = probabilities[:, segment], change[:, segment]
                mean = np.einsum("ij,ij->i", p, moved)
                result[:, segment] = moved - mean[:, None]
            result *= probabilities
            return result

        return product


class GaussianGradients:
    """Independent continuous actions; outputs are means, then log standard deviations."""

    def __init__(self, distribution: Gaussian) -> None:
        self._log_prob, self._split = distribution.log_prob, distribution.split

    def log_prob(self, outputs: Array, actions: Array) -> tuple[Array, Array]:
        mean, log_std = self._split(outputs)
        inverse_std = np.exp(-log_std)
        standardised = (actions - mean) * inverse_std
        gradient = np.concatenate([standardised * inverse_std, standardised**2 - 1.0], axis=1)
        return self._log_prob(outputs, actions), gradient

    def entropy(self, outputs: Array) -> Array:
        _, log_std = self._split(outputs)
        entropy: Array = (log_std + 0.5 * np.log(2 * np.pi * np.e)).sum(axis=1)
        return entropy

    def entropy_gradient(self, outputs: Array) -> Array:
        _, log_std = self._split(outputs)
        return np.concatenate([np.zeros_like(log_std), np.ones_like(log_std)], axis=1)

    def divergence(self, old: Array, new: Array) -> Array:
        old_mean, old_log_std = self._split(old)
        new_mean, new_log_std = self._split(new)
        spread = np.exp(2 * old_log_std) + (old_mean - new_mean) ** 2
        kl: Array = (new_log_std - old_log_std + 0.5 * spread * np.exp(-2 * new_log_std) - 0.5).sum(axis=1)
        return kl

    def fisher(self, outputs: Array) -> Callable[[Array], Array]:
        _, log_std = self._split(outputs)
        factors = np.concatenate([np.exp(-2 * log_std), np.full_like(log_std, 2.0)], axis=1)
        return lambda change: change * factors


class MixedGradients:
    """Discrete and continuous actions together: independent, so that everything is summed or concatenated."""

    def __init__(self, distribution: Mixed) -> None:
        self._distribution = distribution
        self._discrete, self._continuous = (
            CategoricalGradients(distribution.discrete),
            GaussianGradients(distribution.continuous),
        )

    def log_prob(self, outputs: Array, actions: Array) -> tuple[Array, Array]:
        logits, gaussian = self._distribution.split(outputs)
        discrete, continuous = self._distribution.split_actions(actions)
        (first, first_gradient), (second, second_gradient) = (
            self._discrete.log_prob(logits, discrete),
            self._continuous.log_prob(gaussian, continuous),
        )
        return first + second, np.concatenate([first_gradient, second_gradient], axis=1)

    def entropy(self, outputs: Array) -> Array:
        logits, gaussian = self._distribution.split(outputs)
        return self._discrete.entropy(logits) + self._continuous.entropy(gaussian)

    def entropy_gradient(self, outputs: Array) -> Array:
        logits, gaussian = self._distribution.split(outputs)
        gradients = [self._discrete.entropy_gradient(logits), self._continuous.entropy_gradient(gaussian)]
        return np.concatenate(gradients, axis=1)

    def divergence(self, old: Array, new: Array) -> Array:
        old_logits, old_gaussian = self._distribution.split(old)
        new_logits, new_gaussian = self._distribution.split(new)
        return self._discrete.divergence(old_logits, new_logits) + self._continuous.divergence(
            old_gaussian, new_gaussian
        )

    def fisher(self, outputs: Array) -> Callable[[Array], Array]:
        logits, gaussian = self._distribution.split(outputs)
        of_discrete, of_continuous = self._discrete.fisher(logits), self._continuous.fisher(gaussian)

        def product(change: Array) -> Array:
            logits_change, gaussian_change = self._distribution.split(change)
            return np.concatenate([of_discrete(logits_change), of_continuous(gaussian_change)], axis=1)

        return product


def gradients_of(distribution: AnyDistribution) -> PolicyGradients:
    """Return the derivatives for a distribution."""
    match distribution:
        case Gaussian():
            return GaussianGradients(distribution)
        case Mixed():
            return MixedGradients(distribution)
    return CategoricalGradients(distribution)
