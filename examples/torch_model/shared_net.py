"""A network of one's own: policy and value share a fully connected net, and only their last layers differ."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn


class FullyConnected(nn.Module):
    """Linear layers with ReLU in between."""

    def __init__(self, num_inputs: int, hidden: list[int]) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for size in hidden:
            layers += [nn.Linear(num_inputs, size), nn.ReLU()]
            num_inputs = size
        self.layers = nn.Sequential(*layers)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the last hidden layer's features."""
        features: torch.Tensor = self.layers(rows)
        return features


class SharedNet(nn.Module):
    """What muster asks of a model: built with what it reads and must put out, it returns outputs and values."""

    def __init__(self, observation_shape: tuple[int, ...], num_outputs: int, config: dict[str, Any]) -> None:
        super().__init__()
        hidden = config.get("hidden", [64, 64])
        self.body = FullyConnected(math.prod(observation_shape), hidden)
        self.policy = nn.Linear(hidden[-1], num_outputs)
        self.value = nn.Linear(hidden[-1], 1)
        nn.init.normal_(self.policy.weight, std=0.01)

    def forward(self, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the policy's outputs, `[batch, num_outputs]`, and values, `[batch]`."""
        features = self.body(observations.flatten(1))
        return self.policy(features), self.value(features)[:, 0]
