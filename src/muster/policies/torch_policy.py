"""The policy of a network written with torch: its class by name, its weights as arrays, no pickle."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from muster.errors import CheckpointError
from muster.policies.interface import Interface, scale_in
from muster.policies.policy import ARRAYS_FILE, write_policy
from muster.policies.torch_model import PolicyModule, TorchModel

Array = NDArray[Any]

KIND = "torch"
_WEIGHTS = "weights/"


@dataclass(repr=False)
class TorchPolicy:
    """What acts: an observation of the simulator in, an action for it out."""

    interface: Interface
    model: TorchModel
    module: PolicyModule

    def __repr__(self) -> str:
        return f"TorchPolicy({type(self.module).__name__})"

    def act(
        self,
        observation: Any,
        *,
        mask: Any = None,
        deterministic: bool = True,
        rng: np.random.Generator | None = None,
    ) -> Any:
        """Return the action for one observation, as the simulator's `step` takes it."""
        outputs = self.interface.allowed(self.outputs(observation), observation, mask)
        return self.interface.action(outputs, None if deterministic else rng or np.random.default_rng())

    def outputs(self, observation: Any) -> Array:
        """Return what the distribution reads, before any mask, `[1, num_outputs]`."""
        with torch.no_grad():
            outputs: Array = self.module(torch.from_numpy(self.interface.inputs(observation)))[0].numpy()
        return outputs

    def begin_episode(self) -> None:
        """Do nothing: this policy has no memory."""

    def save(self, folder: Path) -> None:
        """Write `policy.json` and `policy.npz` into a folder."""
        description = {"kind": KIND, "format": 1, **self.interface.describe(), "model": asdict(self.model)}
        weights = {_WEIGHTS + name: tensor.numpy() for name, tensor in self.module.state_dict().items()}
        write_policy(folder, description, self.interface.arrays() | weights)


def load(folder: Path, description: dict[str, Any]) -> TorchPolicy:
    """Load the policy that a folder's description describes; its class is imported, as it was for training."""
    with np.load(folder / ARRAYS_FILE, allow_pickle=False) as file:
        arrays = dict(file)
    model = TorchModel(**{**description["model"], "shape": tuple(description["model"]["shape"])})
    module = model.build()
    weights = {
        name.removeprefix(_WEIGHTS): torch.from_numpy(array)
        for name, array in arrays.items()
        if name.startswith(_WEIGHTS)
    }
    try:
        module.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(f"{folder}: {model.class_} is not the class that was trained: {error}") from None
    interface = Interface(description["observations"], description["actions"], scale_in(arrays))
    return TorchPolicy(interface, model, module)
