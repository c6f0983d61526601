"""What a policy's outputs mean: probabilities of choices, a Gaussian over numbers, or both. NumPy alone.

Outputs are rows `[B, num_outputs]`. For choices they are logits, one segment per choice. For numbers they are
means followed by logarithms of deviations. With both, the choices come first.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from muster.simulators.describing import choice_sizes, leaves

Array = NDArray[Any]

# Far below any logit, and yet finite, so that a forbidden choice gets a probability of 0 and no NaN.
FORBIDDEN = np.float32(-1e9)
_HALF_LOG_TWO_PI = 0.5 * float(np.log(2 * np.pi))


class Distribution(Protocol):
    """How to draw an action from outputs, and how likely it was."""

    num_outputs: int
    num_numbers: int
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
    num_numbers = 0

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes
        self.num_outputs = sum(sizes)
        self.action_size = len(sizes)
        ends = np.cumsum(sizes).tolist()
        self.segments = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Return Gumbel's noise: the logarithm of an exponential draw, which itself may come out as 0."""
        draws = rng.standard_exponential(size=(*shape, self.num_outputs), dtype=np.float32)
        np.log(np.maximum(draws, np.finfo(np.float32).tiny, out=draws), out=draws)
        return np.negative(draws, out=draws)

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
        self.action_size = self.num_numbers = size
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


class Mixed:
    """Independent choices and numbers together; an action's row has the choices first, as whole numbers."""

    action_dtype = np.float32

    def __init__(self, choices: Choices, numbers: Gaussian) -> None:
        self.choices, self.numbers = choices, numbers
        self.num_numbers = numbers.num_numbers
        self.num_outputs = choices.num_outputs + numbers.num_outputs
        self.action_size = choices.action_size + numbers.action_size

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return np.concatenate([self.choices.noise(rng, shape), self.numbers.noise(rng, shape)], axis=-1)

    def sample(self, outputs: Array, noise: Array) -> Array:
        (logits, gaussian), end = self.split(outputs), self.choices.num_outputs
        drawn = [self.choices.sample(logits, noise[:, :end]), self.numbers.sample(gaussian, noise[:, end:])]
        return np.concatenate(drawn, axis=1)

    def mode(self, outputs: Array) -> Array:
        logits, gaussian = self.split(outputs)
        return np.concatenate([self.choices.mode(logits), self.numbers.mode(gaussian)], axis=1)

    def log_prob(self, outputs: Array, actions: Array) -> Array:
        logits, gaussian = self.split(outputs)
        chosen, numbers = self.split_actions(actions)
        return self.choices.log_prob(logits, chosen) + self.numbers.log_prob(gaussian, numbers)

    def split(self, outputs: Array) -> tuple[Array, Array]:
        """Return the outputs of the choices and of the numbers."""
        return outputs[:, : self.choices.num_outputs], outputs[:, self.choices.num_outputs :]

    def split_actions(self, actions: Array) -> tuple[Array, Array]:
        """Return the choices, as integers, and the numbers."""
        end = self.choices.action_size
        return actions[:, :end].astype(np.int64), actions[:, end:]


AnyDistribution = Choices | Gaussian | Mixed


def log_softmax(logits: Array) -> Array:
    """Return the logarithm of the softmax of each row."""
    # Sums over the columns of a row are many times faster where each column lies in one piece.
    logits = np.asfortranarray(logits)
    shifted: Array = logits - logits.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted


def masked(outputs: Array, masks: Array) -> Array:
    """Return the outputs of choices with those that a mask `[B, num_outputs]` forbids; without columns, as is."""
    return np.where(masks, outputs, FORBIDDEN) if masks.shape[1] else outputs


def distribution_for(actions: dict[str, Any]) -> AnyDistribution:
    """Return the distribution for a described action space."""
    parts = [leaf for _, leaf in leaves(actions)]
    choices = Choices([size for leaf in parts for size in choice_sizes(leaf)])
    numbers = Gaussian(sum(int(np.prod(leaf["shape"])) for leaf in parts if leaf["kind"] == "box"))
    if not numbers.action_size:
        return choices
    return Mixed(choices, numbers) if choices.action_size else numbers
