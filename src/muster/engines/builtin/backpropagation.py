"""Derivatives of the built-in network: backwards for gradients, forwards along a direction for curvature."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.policies.mlp import MLP, Layers

Array = NDArray[Any]
Activations = list[Array]


def forward(network: MLP, layers: Layers, inputs: Array) -> tuple[Array, Activations]:
    """Return the outputs, and each layer's input, which the derivatives need."""
    activations = [inputs]
    for weight, bias in layers[:-1]:
        hidden = activations[-1] @ weight
        hidden += bias
        if network.activation == "tanh":
            np.tanh(hidden, out=hidden)
        else:
            np.maximum(hidden, 0, out=hidden)
        activations.append(hidden)
    weight, bias = layers[-1]
    outputs = activations[-1] @ weight
    outputs += bias
    return outputs, activations


def backward(network: MLP, layers: Layers, activations: Activations, output_gradient: Array, out: Layers) -> None:
    """Write the gradient of every weight and bias to `out`, given the gradient at the outputs."""
    gradient = output_gradient
    ones = np.ones(len(gradient), gradient.dtype)
    for i in range(len(layers) - 1, -1, -1):
        weight_gradient, bias_gradient = out[i]
        np.matmul(activations[i].T, gradient, out=weight_gradient)
        np.matmul(ones, gradient, out=bias_gradient)
        if i:
            gradient = gradient @ layers[i][0].T
            gradient *= _slope(network, activations[i])


def along(network: MLP, layers: Layers, activations: Activations, direction: Layers) -> Array:
    """Return how the outputs change when the parameters move along a direction."""
    change = activations[0] @ direction[0][0]
    change += direction[0][1]
    for i in range(1, len(layers)):
        change *= _slope(network, activations[i])
        change = change @ layers[i][0]
        change += activations[i] @ direction[i][0]
        change += direction[i][1]
    return change


def _slope(network: MLP, activation: Array) -> Array:
    """Return the activation function's derivative, from its value."""
    if network.activation == "tanh":
        slope: Array = activation * activation
        return np.subtract(1.0, slope, out=slope)
    return (activation > 0).astype(activation.dtype)
