"""A policy as one torch module, from raw observation arrays to the deterministic action: what is exported."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from muster.policies.distributions import FORBIDDEN
from muster.policies.interface import Interface
from muster.policies.mlp import MLP, Layers
from muster.policies.mlp_policy import MLPPolicy
from muster.policies.onnx_export import ExportablePolicy, part_name
from muster.policies.scale import CLIP
from muster.policies.torch_model import PolicyModule
from muster.policies.torch_policy import TorchPolicy
from muster.simulators.decoding import columns, squashed_entries, stretch_of
from muster.simulators.describing import MASK, Description, choice_sizes, leaves

Array = NDArray[Any]
Tensor = torch.Tensor


class PolicyGraph(nn.Module):
    """Takes an array `[batch, ...]` for each part of an observation, and the mask if there is one.

    Returns an array for each part of the action, then the network's outputs: logits, and means of numbers.
    """

    def __init__(self, policy: ExportablePolicy, *, takes_mask: bool) -> None:
        super().__init__()
        interface = policy.interface
        self._network: nn.Module
        if isinstance(policy, MLPPolicy):
            self._network = _Perceptron(policy.network, policy.layers)
        else:
            assert isinstance(policy, TorchPolicy)
            self._network = _Model(policy.module)
        self._encoders = nn.ModuleList(_encoder_of(leaf) for _, leaf in leaves(interface.observations))
        self._scale = _Scale(interface)
        self._heads = nn.ModuleList(_head_of(part) for part in _action_parts(interface.actions))
        self.takes_mask = takes_mask
        self.input_names = [part_name("observation", keys) for keys, _ in leaves(interface.observations)]
        self.input_names += [MASK] if takes_mask else []
        self.output_names = [part_name("action", keys) for keys, _ in leaves(interface.actions)] + ["outputs"]

    def forward(self, *arrays: Tensor) -> tuple[Tensor, ...]:
        """Return the action's parts, and the network's outputs."""
        parts = arrays[:-1] if self.takes_mask else arrays
        rows = torch.cat([encode(part) for encode, part in zip(self._encoders, parts, strict=True)], dim=1)
        outputs = self._network(self._scale(rows))
        allowed = outputs
        if self.takes_mask:
            allowed = torch.where(arrays[-1] != 0, outputs, torch.tensor(float(FORBIDDEN)))
        return (*(head(allowed) for head in self._heads), outputs)


class _Perceptron(nn.Module):
    def __init__(self, network: MLP, layers: Layers) -> None:
        super().__init__()
        modules: list[nn.Module] = []
        for weight, bias in layers:
            linear = nn.Linear(*weight.shape)
            linear.weight.data = torch.tensor(weight.T.copy())
            linear.bias.data = torch.tensor(bias)
            modules += [linear, nn.Tanh() if network.activation == "tanh" else nn.ReLU()]
        self._layers = nn.Sequential(*modules[:-1])

    def forward(self, rows: Tensor) -> Tensor:
        outputs: Tensor = self._layers(rows)
        return outputs


class _Model(nn.Module):
    def __init__(self, module: PolicyModule) -> None:
        super().__init__()
        self._module = module

    def forward(self, rows: Tensor) -> Tensor:
        outputs: Tensor = self._module(rows)[0]
        return outputs[:, : outputs.shape[1] - len(self._module.log_std)]


class _Scale(nn.Module):
    def __init__(self, interface: Interface) -> None:
        super().__init__()
        scale = interface.scale
        self._is_on = scale is not None
        self._mean = nn.Buffer(torch.tensor(scale.mean if scale else 0.0))
        self._std = nn.Buffer(torch.tensor(scale.std if scale else 1.0))

    def forward(self, rows: Tensor) -> Tensor:
        if not self._is_on:
            return rows
        return ((rows - self._mean) / self._std).clamp(-float(CLIP), float(CLIP))


class _Numbers(nn.Module):
    def __init__(self, divisor: float) -> None:
        super().__init__()
        self._divisor = divisor

    def forward(self, part: Tensor) -> Tensor:
        return part.float().flatten(1) / self._divisor


class _OneHot(nn.Module):
    def __init__(self, sizes: list[int], starts: list[int]) -> None:
        super().__init__()
        self._starts = starts
        self._identities = [torch.eye(size) for size in sizes]

    def forward(self, part: Tensor) -> Tensor:
        choices = part.long().reshape(-1, len(self._starts))
        hot = [
            identity[choices[:, i] - start]
            for i, (identity, start) in enumerate(zip(self._identities, self._starts, strict=True))
        ]
        return torch.cat(hot, dim=1)


def _encoder_of(leaf: Description) -> nn.Module:
    match leaf["kind"]:
        case "discrete" | "multi_discrete":
            return _OneHot(choice_sizes(leaf), np.ravel(leaf["start"]).tolist())
        case "image":
            return _Numbers(255.0)
    return _Numbers(1.0)


def _action_parts(actions: Description) -> list[tuple[Description, int]]:
    """Return each part of an action, and where in the network's outputs its own begin."""
    places = columns(actions)
    num_choices = sum(len(choice_sizes(leaf)) for _, leaf in leaves(actions))
    sizes = [size for _, leaf in leaves(actions) for size in choice_sizes(leaf)]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
    found = []
    for keys, leaf in leaves(actions):
        first = places[keys].start
        is_box = leaf["kind"] == "box"
        found.append((leaf, int(starts[-1] + first - num_choices if is_box else starts[first])))
    return found


class _Choice(nn.Module):
    """The likeliest of each of a part's choices."""

    def __init__(self, leaf: Description, start: int) -> None:
        super().__init__()
        self._sizes, self._start = choice_sizes(leaf), start
        self._shape = tuple(leaf.get("shape", ()))
        self._dtype = torch.int8 if leaf["kind"] == "multi_binary" else torch.int64
        self._first = torch.tensor(np.ravel(leaf.get("start", 0)))

    def forward(self, outputs: Tensor) -> Tensor:
        segments = outputs[:, self._start : self._start + sum(self._sizes)].split(self._sizes, dim=1)
        chosen = torch.stack([segment.argmax(dim=1) for segment in segments], dim=1) + self._first
        return chosen.reshape(-1, *self._shape).to(self._dtype)


class _Position(nn.Module):
    """A Box, stretched to its bounds; in double precision, as the policy itself does it."""

    def __init__(self, leaf: Description, start: int) -> None:
        super().__init__()
        self._dtype = getattr(torch, leaf["dtype"])
        self._shape = tuple(leaf["shape"])
        self._place = slice(start, start + int(np.prod(self._shape)))
        self._centre, self._reach, self._low, self._high = (torch.tensor(array) for array in stretch_of(leaf))
        self._squashed = torch.tensor(squashed_entries(leaf))

    def forward(self, outputs: Tensor) -> Tensor:
        means = outputs[:, self._place]
        means = torch.where(self._squashed, torch.tanh(means), means)
        numbers = means.double() * self._reach + self._centre
        numbers = torch.minimum(torch.maximum(numbers, self._low), self._high)
        if not self._dtype.is_floating_point:
            numbers = torch.round(numbers)
        return numbers.to(self._dtype).reshape(-1, *self._shape)


def _head_of(part: tuple[Description, int]) -> nn.Module:
    leaf, start = part
    return _Position(leaf, start) if leaf["kind"] == "box" else _Choice(leaf, start)
