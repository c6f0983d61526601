"""The built-in network for images: convolutions, then a policy and a value net on them and all the rest."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import nn

from muster.simulators.describing import is_channels_first

# Channels, kernel, stride: for screens, as in "Human-level control" (Mnih and others, 2015), and for small images.
_LARGE = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
_SMALL = ((16, 3, 1), (32, 3, 2))
_LARGE_FROM = 36


class ConvolutionalNetwork(nn.Module):
    """Reads rows that contain flattened images; `config["images"]` holds the start and shape of each."""

    def __init__(self, observation_shape: tuple[int, ...], num_outputs: int, config: dict[str, Any]) -> None:
        super().__init__()
        size = int(torch.Size(observation_shape).numel())
        self._images = [(start, tuple(shape)) for start, shape in config["images"]]
        covered = {i for start, shape in self._images for i in range(start, start + torch.Size(shape).numel())}
        self._rest = [i for i in range(size) if i not in covered]
        self.convolutions = nn.ModuleList(_convolution(shape) for _, shape in self._images)
        with torch.no_grad():
            num_features = self._features(torch.zeros(1, size)).shape[1]
        self.policy = _perceptron([num_features, *config["hidden"], num_outputs], config["activation"], 0.01)
        self.value = _perceptron([num_features, *config["hidden"], 1], config["activation"], 1.0)

    def forward(self, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return outputs of the policy, `[B, num_outputs]`, and values, `[B]`."""
        features = self._features(observations.flatten(1))
        return self.policy(features), self.value(features)[:, 0]

    def _features(self, rows: torch.Tensor) -> torch.Tensor:
        found = [rows[:, self._rest]] if self._rest else []
        for (start, shape), convolution in zip(self._images, self.convolutions, strict=True):
            image = rows[:, start : start + torch.Size(shape).numel()].reshape(-1, *shape)
            if len(shape) == 2:
                image = image.unsqueeze(1)
            elif not is_channels_first(shape):
                image = image.permute(0, 3, 1, 2)
            found.append(convolution(image))
        return torch.cat(found, dim=1)


def _convolution(shape: tuple[int, ...]) -> nn.Sequential:
    *channels_before, height, width = (
        shape if len(shape) == 2 or is_channels_first(shape) else (shape[2], *shape[:2])
    )
    channels = channels_before[0] if channels_before else 1
    modules: list[nn.Module] = []
    for filters, kernel, stride in _LARGE if min(height, width) >= _LARGE_FROM else _SMALL:
        layer = nn.Conv2d(channels, filters, kernel, stride, padding=0 if kernel > 3 else 1)
        modules += [_started(layer, 2**0.5), nn.ReLU()]
        channels = filters
    return nn.Sequential(*modules, nn.Flatten())


def _perceptron(sizes: list[int], activation: str, last_gain: float) -> nn.Sequential:
    modules: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes[:-1]):
        modules += [_started(nn.Linear(inputs, outputs), 2**0.5), nn.Tanh() if activation == "tanh" else nn.ReLU()]
    return nn.Sequential(*modules, _started(nn.Linear(sizes[-2], sizes[-1]), last_gain))


def _started(layer: nn.Conv2d | nn.Linear, gain: float) -> nn.Module:
    nn.init.orthogonal_(layer.weight, gain)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer
