"""Derivatives of the network, against torch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from muster.engines.builtin.networks.backpropagation import along, backward, forward
from muster.engines.builtin.networks.row_formats import factor
from muster.policies.mlp import MLP


def network_and_data(activation: str) -> tuple[MLP, Any, Any]:
    network = MLP((5, 7, 6, 3), activation)
    rng = np.random.default_rng(1)
    return network, rng.standard_normal(network.num_parameters), rng.standard_normal((11, 5))


def torch_outputs(network: MLP, flat: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    hidden, start = inputs, 0
    pairs = list(zip(network.sizes[:-1], network.sizes[1:], strict=True))
    for i, (a, b) in enumerate(pairs):
        weight = flat[start : start + a * b].reshape(a, b)
        bias = flat[start + a * b : start + (a + 1) * b]
        hidden = hidden @ weight + bias
        start += (a + 1) * b
        if i < len(pairs) - 1:
            hidden = torch.tanh(hidden) if network.activation == "tanh" else torch.relu(hidden)
    return hidden


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_forward_and_backward_agree_with_autograd(activation: str) -> None:
    network, flat, inputs = network_and_data(activation)
    weights = torch.tensor(flat, requires_grad=True)
    outputs = torch_outputs(network, weights, torch.tensor(inputs))
    at_outputs = np.random.default_rng(2).standard_normal((11, 3))
    outputs.backward(torch.tensor(at_outputs))

    own, activations = forward(network, network.layers(flat), inputs)
    gradient = np.empty_like(flat)
    backward(network.layers(flat), activations, at_outputs, network.layers(gradient))

    np.testing.assert_allclose(own, outputs.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(network.forward(network.layers(flat), inputs), own, rtol=1e-12)
    assert weights.grad is not None
    np.testing.assert_allclose(gradient, weights.grad.numpy(), rtol=1e-10, atol=1e-12)


def test_rows_of_columns_are_as_good_as_one_hot_rows() -> None:
    network = MLP((9, 7, 3), "tanh")
    rng = np.random.default_rng(1)
    layers = network.layers(rng.standard_normal(network.num_parameters))
    columns = np.stack([rng.integers(0, 4, 11), rng.integers(4, 9, 11)], axis=1)
    at_outputs = rng.standard_normal((11, 3))
    outputs, gradients = [], []
    for rows in (columns, np.eye(9)[columns].sum(axis=1)):
        own, activations = forward(network, layers, rows)
        gradients.append(np.empty(network.num_parameters))
        backward(layers, activations, at_outputs, network.layers(gradients[-1]))
        outputs += [own, network.forward(layers, factor(rows))]
    for own in outputs[1:]:
        np.testing.assert_allclose(own, outputs[0], rtol=1e-10)
    np.testing.assert_allclose(gradients[0], gradients[1], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_change_along_a_direction_agrees_with_finite_differences(activation: str) -> None:
    network, flat, inputs = network_and_data(activation)
    direction = np.random.default_rng(3).standard_normal(flat.shape)
    _, activations = forward(network, network.layers(flat), inputs)
    change = along(network.layers(flat), activations, network.layers(direction))
    step = 1e-6
    ahead, _ = forward(network, network.layers(flat + step * direction), inputs)
    behind, _ = forward(network, network.layers(flat - step * direction), inputs)
    np.testing.assert_allclose(change, (ahead - behind) / (2 * step), rtol=1e-4, atol=1e-6)
