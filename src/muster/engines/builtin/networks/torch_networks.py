"""A torch model as the engine's networks: its parameters as one flat vector, gradients by autograd."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.func import functional_call

from muster.engines.builtin.networks.actor_critic import INITIAL_LOG_STD
from muster.engines.builtin.networks.protocol import PullBack
from muster.engines.builtin.networks.row_formats import dense, dense_blocks
from muster.policies.distributions import AnyDistribution
from muster.policies.interface import Interface
from muster.policies.torch_model import PolicyModule, TorchModel
from muster.policies.torch_policy import TorchPolicy

Array = NDArray[Any]
Tensors = dict[str, torch.Tensor]


class TorchNetworks:
    """The policy and value networks of a torch model; its buffers stay as its constructor made them."""

    def __init__(self, model: TorchModel, distribution: AnyDistribution, log_std_init: float | None) -> None:
        self.distribution = distribution
        self._model = model
        self._log_std = INITIAL_LOG_STD if log_std_init is None else log_std_init
        self._module = model.build()
        self._shapes = {name: parameter.shape for name, parameter in self._module.named_parameters()}

    @property
    def num_parameters(self) -> int:
        """Length of the flat vector."""
        return sum(shape.numel() for shape in self._shapes.values())

    def initial(self, rng: np.random.Generator) -> Array:
        """Return initial parameters, as the model's constructor draws them."""
        module = self._model.build(int(rng.integers(2**31)), self._log_std)
        return _flat(tuple(parameter.detach() for parameter in module.parameters()))

    def split(self, flat: Array) -> Tensors:
        """Return the model's parameters as tensors that share the vector's memory, if it may be written to."""
        whole = torch.from_numpy(flat if flat.flags.writeable else flat.copy())
        sizes = [shape.numel() for shape in self._shapes.values()]
        return {
            name: part.view(shape)
            for (name, shape), part in zip(self._shapes.items(), whole.split(sizes), strict=True)
        }

    def policy_outputs(self, parts: Tensors, rows: Array) -> Array:
        """Return the outputs that the distribution reads, `[B, num_outputs]`."""
        return self._forward(parts, rows)[0]

    def values(self, parts: Tensors, rows: Array) -> Array:
        """Return the value of each row, `[B]`."""
        return self._forward(parts, rows)[1]

    def differentiate(self, parts: Tensors, rows: Array) -> tuple[Array, Array, PullBack]:
        """Return outputs and values, and the function that propagates gradients at them back to the parameters."""
        leaves = {name: part.detach().requires_grad_() for name, part in parts.items()}
        outputs, values = functional_call(self._module, leaves, (torch.from_numpy(dense(rows, rows.shape[1])),))

        def pull_back(at_outputs: Array, at_values: Array, out: Tensors) -> None:
            gradients = torch.autograd.grad(
                [outputs, values],
                list(leaves.values()),
                [torch.from_numpy(at.astype(np.float32)) for at in (at_outputs, at_values)],
                allow_unused=True,
                materialize_grads=True,
            )
            for part, gradient in zip(out.values(), gradients, strict=True):
                part.copy_(gradient)

        return outputs.detach().numpy(), values.detach().numpy(), pull_back

    def policy_with(self, parameters: Array, interface: Interface) -> TorchPolicy:
        """Return the policy with these parameters, at an interface to the simulator."""
        module: PolicyModule = self._model.build()
        module.load_state_dict({**self._module.state_dict(), **self.split(parameters)})
        return TorchPolicy(interface, self._model, module)

    def _forward(self, parts: Tensors, rows: Array) -> tuple[Array, Array]:
        """Return outputs and values."""
        with torch.no_grad():
            done = [
                functional_call(self._module, parts, (torch.from_numpy(block),))
                for block in dense_blocks(rows, rows.shape[1])
            ]
        outputs, values = zip(*done, strict=True)
        return torch.cat(outputs).numpy(), torch.cat(values).numpy()


def _flat(tensors: tuple[torch.Tensor, ...]) -> Array:
    flat: Array = torch.cat([tensor.reshape(-1) for tensor in tensors]).numpy()
    return flat
