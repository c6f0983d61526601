"""Networks written with torch, by a class's name: the user's own, or the built-in one for images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from muster.simulators.lookup import import_attribute

_PROBE = 2


class ModelShapeError(ValueError):
    """A model whose results do not have the shapes that they must have."""


@dataclass(frozen=True)
class TorchModel:
    """How to build a model: its class, its settings, the shapes of its inputs and outputs; plain data."""

    class_: str
    shape: tuple[int, ...]
    num_outputs: int
    num_numbers: int
    config: dict[str, Any] = field(default_factory=dict)
    paths: Sequence[str] = ()

    def build(self, seed: int = 0, log_std: float = 0.0) -> PolicyModule:
        """Build it with initial weights drawn from a seed; torch's global random state does not change.

        Raises:
            ExperimentError: if there is no such class.
            Exception: whatever its constructor raises.
        """
        model_class = import_attribute(self.class_, "model.class", self.paths)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = model_class(self.shape, self.num_outputs, dict(self.config))
        return PolicyModule(model, self.shape, self.num_numbers, log_std).eval()

    def check(self) -> None:
        """Build it and try it on a small batch.

        Raises:
            ModelShapeError: if it does not return what it must.
            Exception: whatever its own code raises.
        """
        module = self.build()
        with torch.no_grad():
            result = module.model(torch.zeros(_PROBE, *self.shape))
        expected = f"a pair of tensors, [batch, {self.num_outputs}] and [batch]"
        if not isinstance(result, tuple) or len(result) != 2:
            raise ModelShapeError(f"forward returned a {type(result).__name__}; expected {expected}")
        outputs, values = result
        if outputs.shape != (_PROBE, self.num_outputs) or values.numel() != _PROBE:
            found = f"{list(outputs.shape)} and {list(values.shape)} for a batch of {_PROBE}"
            raise ModelShapeError(f"forward returned {found}; expected {expected}")


class PolicyModule(torch.nn.Module):
    """A model that reads rows, and the log standard deviations of continuous actions as parameters beside it."""

    def __init__(self, model: torch.nn.Module, shape: tuple[int, ...], num_numbers: int, log_std: float) -> None:
        super().__init__()
        self.model = model
        self.log_std = torch.nn.Parameter(torch.full((num_numbers,), log_std))
        self._shape = shape

    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what the distribution reads, `[B, num_outputs]`, and values `[B]`."""
        outputs, values = self.model(rows.reshape(-1, *self._shape))
        if len(self.log_std):
            outputs = torch.cat([outputs, self.log_std.expand(len(outputs), -1)], dim=1)
        return outputs, values.reshape(-1)
