"""What a policy's outputs mean: probabilities of choices, or a Gaussian over numbers. NumPy alone.

Outputs are rows `[B, num_outputs]`. For choices they are logits, one segment per choice. For numbers they are
means followed by logarithms of deviations.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_HALF_LOG_TWO_PI = 0.5 * float(np.log(2 * np.pi))


class Distribution(Protocol):
    """How to draw an action from outputs, and how likely it was."""

    num_outputs: int
    action_size: int
    action_dtype: type[Any]

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Draw what `sample` needs for actions of this shape, ahead of time and all at once."""

    def sample(self, outputs: Array, noise: Array) -> Array:
        """Draw actions `[B, action_size]`."""

    def mode(self, outputs: Array) -> Array:
        """Return the likeliest actions."""

    def log_prob(self, outputs: Array, actions: Array) -> Array:
        """Return the logarithm of the actions' probability (density), `[B]`."""


class Choices:
    """Independent choices, the i-th among `sizes[i]`."""

    action_dtype = np.int64

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes
        self.num_outputs = sum(sizes)
        self.action_size = len(sizes)
        ends = np.cumsum(sizes).tolist()
        self.segments = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return rng.gumbel(size=(*shape, self.num_outputs)).astype(np.float32)

    def sample(self, outputs: Array, noise: Array) -> Array:
        return self.mode(outputs + noise)

    def mode(self, outputs: Array) -> Array:
        if self.action_size == 1:
            chosen: Array = np.argmax(outputs, axis=1, keepdims=True)
            return chosen
        return np.stack([outputs[:, segment].argmax(axis=1) for segment in self.segments], axis=1)

    def log_prob(self, outputs: Array, actions: Array) -> Array:
        rows = np.arange(len(outputs))
        total = np.zeros(len(outputs), dtype=outputs.dtype)
        for i, segment in enumerate(self.segments):
            total += log_softmax(outputs[:, segment])[rows, actions[:, i]]
        return total


class Gaussian:
    """Independent normal numbers."""

    action_dtype = np.float32

    def __init__(self, size: int) -> None:
        self.action_size = size
        self.num_outputs = 2 * size

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return rng.standard_normal(size=(*shape, self.action_size), dtype=np.float32)

    def sample(self, outputs: Array, noise: Array) -> Array:
        mean, log_std = self.split(outputs)
        drawn: Array = mean + np.exp(log_std) * noise
        return drawn

    def mode(self, outputs: Array) -> Array:
        return self.split(outputs)[0]

    def log_prob(self, outputs: Array, actions: Array) -> Array:
        mean, log_std = self.split(outputs)
        standardised = (actions - mean) * np.exp(-log_std)
        density: Array = (-0.5 * standardised**2 - log_std - _HALF_LOG_TWO_PI).sum(axis=1)
        return density

    def split(self, outputs: Array) -> tuple[Array, Array]:
        """Return means and logarithms of deviations."""
        return outputs[:, : self.action_size], outputs[:, self.action_size :]


def log_softmax(logits: Array) -> Array:
    """Return the logarithm of the softmax of each row."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    normalised: Array = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return normalised


def distribution_for(actions: dict[str, Any]) -> Choices | Gaussian:
    """Return the distribution for a described action space."""
    if actions["kind"] == "discrete":
        return Choices([actions["n"]])
    if actions["kind"] == "multi_discrete":
        return Choices(actions["nvec"])
    return Gaussian(int(np.prod(actions["shape"])))
