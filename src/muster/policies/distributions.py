"""The distribution that a policy's outputs parametrise: categorical, Gaussian, or both. NumPy alone.

Outputs are rows `[B, num_outputs]`. For discrete actions they are logits, one segment per action. For continuous
actions they are means followed by log standard deviations. With both, the discrete actions come first.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from muster.simulators.describing import choice_sizes, leaves

Array = NDArray[Any]

# Far below any logit, and yet finite, so that a masked-out action gets a probability of 0 and no NaN.
FORBIDDEN = np.float32(-1e9)
_HALF_LOG_TWO_PI = 0.5 * float(np.log(2 * np.pi))


class Distribution(Protocol):
    """Draws actions from outputs, and says how likely they were."""

    num_outputs: int
    num_continuous: int
    action_size: int
    action_dtype: type[Any]

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Draw the noise that `sample` needs for actions of this shape, ahead of time and all at once."""

    def sample(self, outputs: Array, noise: Array) -> Array:
        """Draw actions `[B, action_size]`."""

    def mode(self, outputs: Array) -> Array:
        """Return the likeliest actions."""

    def log_prob(self, outputs: Array, actions: Array) -> Array:
        """Return the actions' log-probability (density), `[B]`."""


class Categorical:
    """Independent discrete actions, the i-th with `sizes[i]` values."""

    action_dtype = np.int64
    num_continuous = 0

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes
        self.num_outputs = sum(sizes)
        self.action_size = len(sizes)
        ends = np.cumsum(sizes).tolist()
        self.segments = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Return Gumbel noise: the negative logarithm of an exponential draw, which itself may come out as 0."""
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
    """Independent, normally distributed continuous actions."""

    action_dtype = np.float32

    def __init__(self, size: int) -> None:
        self.action_size = self.num_continuous = size
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
        """Return means and log standard deviations."""
        return outputs[:, : self.action_size], outputs[:, self.action_size :]


class Mixed:
    """Discrete and continuous actions, all independent; a row has the discrete ones first, as integers."""

    action_dtype = np.float32

    def __init__(self, discrete: Categorical, continuous: Gaussian) -> None:
        self.discrete, self.continuous = discrete, continuous
        self.num_continuous = continuous.num_continuous
        self.num_outputs = discrete.num_outputs + continuous.num_outputs
        self.action_size = discrete.action_size + continuous.action_size

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return np.concatenate([self.discrete.noise(rng, shape), self.continuous.noise(rng, shape)], axis=-1)

    def sample(self, outputs: Array, noise: Array) -> Array:
        (logits, gaussian), end = self.split(outputs), self.discrete.num_outputs
        drawn = [self.discrete.sample(logits, noise[:, :end]), self.continuous.sample(gaussian, noise[:, end:])]
        return np.concatenate(drawn, axis=1)

    def mode(self, outputs: Array) -> Array:
        logits, gaussian = self.split(outputs)
        return np.concatenate([self.discrete.mode(logits), self.continuous.mode(gaussian)], axis=1)

    def log_prob(self, outputs: Array, actions: Array) -> Array:
        logits, gaussian = self.split(outputs)
        discrete, continuous = self.split_actions(actions)
        return self.discrete.log_prob(logits, discrete) + self.continuous.log_prob(gaussian, continuous)

    def split(self, outputs: Array) -> tuple[Array, Array]:
        """Return the outputs for the discrete and for the continuous actions."""
        return outputs[:, : self.discrete.num_outputs], outputs[:, self.discrete.num_outputs :]

    def split_actions(self, actions: Array) -> tuple[Array, Array]:
        """Return the discrete actions, as integers, and the continuous ones."""
        end = self.discrete.action_size
        return actions[:, :end].astype(np.int64), actions[:, end:]


AnyDistribution = Categorical | Gaussian | Mixed


def log_softmax(logits: Array) -> Array:
    """Return the logarithm of the softmax of each row."""
    # Sums over the columns of a row are many times faster where each column lies in one piece.
    logits = np.asfortranarray(logits)
    shifted: Array = logits - logits.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted


def masked(outputs: Array, masks: Array) -> Array:
    """Set masked-out logits to FORBIDDEN; no-op if the mask `[B, num_outputs]` has no columns."""
    return np.where(masks, outputs, FORBIDDEN) if masks.shape[1] else outputs


def distribution_for(actions: dict[str, Any]) -> AnyDistribution:
    """Return the distribution for a described action space."""
    parts = [leaf for _, leaf in leaves(actions)]
    discrete = Categorical([size for leaf in parts for size in choice_sizes(leaf)])
    continuous = Gaussian(sum(int(np.prod(leaf["shape"])) for leaf in parts if leaf["kind"] == "box"))
    if not continuous.action_size:
        return discrete
    return Mixed(discrete, continuous) if discrete.action_size else continuous
