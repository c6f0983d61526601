"""The built-in network: a multilayer perceptron whose weights are views of one flat vector. NumPy alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Layers = list[tuple[Array, Array]]


@dataclass(frozen=True)
class MLP:
    """The shape of a network: its sizes from input to output, and its activation, `tanh` or `relu`."""

    sizes: tuple[int, ...]
    activation: str

    @cached_property
    def num_parameters(self) -> int:
        """The number of weights and biases."""
        return sum((inputs + 1) * outputs for inputs, outputs in pairwise(self.sizes))

    def layers(self, flat: Array) -> Layers:
        """Return weights `[inputs, outputs]` and biases as views into a flat vector."""
        layers, start = [], 0
        for inputs, outputs in pairwise(self.sizes):
            middle, end = start + inputs * outputs, start + (inputs + 1) * outputs
            layers.append((flat[start:middle].reshape(inputs, outputs), flat[middle:end]))
            start = end
        return layers

    def forward(self, layers: Layers, inputs: Array) -> Array:
        """Return the outputs for rows of inputs."""
        return self.last(layers, self.features(layers, inputs))

    def features(self, layers: Layers, inputs: Array) -> Array:
        """Return what the last layer reads."""
        activate = np.tanh if self.activation == "tanh" else _relu
        hidden = inputs
        for weight, bias in layers[:-1]:
            hidden = hidden @ weight
            hidden += bias
            activate(hidden, hidden)
        return hidden

    def last(self, layers: Layers, features: Array) -> Array:
        """Return the outputs for rows of features."""
        weight, bias = layers[-1]
        outputs = features @ weight
        outputs += bias
        return outputs


def _relu(values: Array, out: Array) -> Array:
    return np.maximum(values, 0, out=out)
