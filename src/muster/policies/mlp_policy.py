"""The policy of the built-in network: encoding, scale and weights in two files without pickle. NumPy alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.policies import state_dependent
from muster.policies.interface import Interface, scale_in
from muster.policies.mlp import MLP, Layers
from muster.policies.policy import ARRAYS_FILE, write_policy
from muster.policies.scale import Scale

Array = NDArray[Any]

KIND = "mlp"


@dataclass(repr=False)
class MLPPolicy:
    """What acts: an observation of the simulator in, an action for it out.

    `log_std` has an entry for each continuous action; with state-dependent exploration, a row of them for each
    feature of the last hidden layer.
    """

    observations: dict[str, Any]
    actions: dict[str, Any]
    network: MLP
    layers: Layers
    scale: Scale | None
    log_std: Array | None = None

    def __post_init__(self) -> None:
        self.interface = Interface(self.observations, self.actions, self.scale)

    def __repr__(self) -> str:
        return f"MLPPolicy({'-'.join(map(str, self.network.sizes))} {self.network.activation})"

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
        features = self.network.features(self.layers, self.interface.inputs(observation))
        outputs = self.network.last(self.layers, features)
        if self.log_std is None:
            return outputs
        state_dependent_noise = self.log_std.ndim > 1
        log_std = (
            state_dependent.log_std_at(features, self.log_std) if state_dependent_noise else self.log_std[None]
        )
        return np.concatenate([outputs, log_std], axis=1)

    def begin_episode(self) -> None:
        """Do nothing: this policy has no memory."""

    def save(self, folder: Path) -> None:
        """Write `policy.json` and `policy.npz` into a folder."""
        description = {
            "kind": KIND,
            "format": 1,
            **self.interface.describe(),
            "network": {"sizes": list(self.network.sizes), "activation": self.network.activation},
        }
        arrays = self.interface.arrays()
        for i, (weight, bias) in enumerate(self.layers):
            arrays |= {f"layers/{i}/weight": weight, f"layers/{i}/bias": bias}
        if self.log_std is not None:
            arrays["log_std"] = self.log_std
        write_policy(folder, description, arrays)


def load(folder: Path, description: dict[str, Any]) -> MLPPolicy:
    """Load the policy that a folder's description describes."""
    with np.load(folder / ARRAYS_FILE, allow_pickle=False) as file:
        arrays = dict(file)
    network = MLP(tuple(description["network"]["sizes"]), description["network"]["activation"])
    count = len(network.sizes) - 1
    layers = [(arrays[f"layers/{i}/weight"], arrays[f"layers/{i}/bias"]) for i in range(count)]
    spaces = description["observations"], description["actions"]
    return MLPPolicy(*spaces, network, layers, scale_in(arrays), arrays.get("log_std"))
