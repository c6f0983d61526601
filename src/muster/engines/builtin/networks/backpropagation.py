"""Derivatives of the built-in network: backwards for gradients, forwards along a direction for curvature."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.engines.builtin.networks.row_formats import dense, factor
from muster.policies.mlp import MLP, Layers

Array = NDArray[Any]


@dataclass
class Activations:
    """What a forward pass keeps for the derivatives: each layer's input; slopes are computed on first use."""

    network: MLP
    inputs: list[Array]
    _slopes: dict[int, Array] = field(default_factory=dict)

    @property
    def features(self) -> Array:
        """What the last layer reads."""
        return self.inputs[-1]

    def slope(self, i: int) -> Array:
        """Return the activation function's derivative at a hidden layer's outputs, computed from these outputs."""
        if i not in self._slopes:
            value = self.inputs[i]
            if self.network.activation == "tanh":
                slope = value * value
                np.subtract(1.0, slope, out=slope)
            else:
                slope = (value > 0).astype(value.dtype)
            self._slopes[i] = slope
        return self._slopes[i]


def forward(
    network: MLP, layers: Layers, rows: Array, dense_rows: Array | None = None
) -> tuple[Array, Activations]:
    """Return the outputs for rows of any format, and what the derivatives need: `dense_rows`, if known already."""
    activations = Activations(network, [dense(rows, network.sizes[0]) if dense_rows is None else dense_rows])
    hidden = factor(rows)
    for weight, bias in layers[:-1]:
        hidden = hidden @ weight
        hidden += bias
        if network.activation == "tanh":
            np.tanh(hidden, out=hidden)
        else:
            np.maximum(hidden, 0, out=hidden)
        activations.inputs.append(hidden)
    weight, bias = layers[-1]
    outputs: Array = hidden @ weight
    outputs += bias
    return outputs, activations


def backward(layers: Layers, activations: Activations, output_gradient: Array, out: Layers) -> None:
    """Write the gradient of every weight and bias to `out`, given the gradient at the outputs."""
    gradient = output_gradient
    ones = _ones(len(gradient))
    for i in range(len(layers) - 1, -1, -1):
        weight_gradient, bias_gradient = out[i]
        np.matmul(activations.inputs[i].T, gradient, out=weight_gradient)
        np.matmul(ones, gradient, out=bias_gradient)
        if i:
            gradient = gradient @ layers[i][0].T
            gradient *= activations.slope(i)


@lru_cache(maxsize=4)
def _ones(count: int) -> Array:
    """Return ones, so that a product sums the rows."""
    return np.ones(count, np.float32)


def along(layers: Layers, activations: Activations, direction: Layers) -> Array:
    """Return how the outputs change when the parameters move along a direction."""
    change = activations.inputs[0] @ direction[0][0]
    change += direction[0][1]
    for i in range(1, len(layers)):
        change *= activations.slope(i)
        change = change @ layers[i][0]
        change += activations.inputs[i] @ direction[i][0]
        change += direction[i][1]
    return change
