"""The policy of the built-in engine: encoding, scale and network in two files without pickle. NumPy alone."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.policies.distributions import Gaussian, distribution_for
from muster.policies.mlp import MLP, Layers
from muster.policies.normalizer import Scale
from muster.policies.policy import ARRAYS_FILE, DESCRIPTION_FILE
from muster.simulators.encoding import ActionDecoder, ObservationEncoder

Array = NDArray[Any]

KIND = "mlp"


@dataclass
class MLPPolicy:
    """What acts: an observation of the simulator in, an action for it out."""

    observations: dict[str, Any]
    actions: dict[str, Any]
    network: MLP
    layers: Layers
    scale: Scale | None
    log_std: Array | None = None
    _encoder: ObservationEncoder = field(init=False, repr=False)
    _decoder: ActionDecoder = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._encoder = ObservationEncoder(self.observations)
        self._decoder = ActionDecoder(self.actions)
        self._distribution = distribution_for(self.actions)
        self._row = np.zeros((1, self._encoder.size), np.float32)

    def act(self, observation: Any, *, deterministic: bool = True, rng: np.random.Generator | None = None) -> Any:
        """Return the action for one observation, as the simulator's `step` takes it."""
        self._encoder.encode_into(self._row[0], observation)
        rows = self._row if self.scale is None else self.scale.apply(self._row, np.empty_like(self._row))
        outputs = self.network.forward(self.layers, rows)
        if self.log_std is not None:
            outputs = np.concatenate([outputs, self.log_std[None]], axis=1)
        if deterministic:
            chosen = self._distribution.mode(outputs)
        else:
            chosen = self._distribution.sample(
                outputs, self._distribution.noise(rng or np.random.default_rng(), (1,))
            )
        return self._decoder.decode(chosen)[0]

    def begin_episode(self) -> None:
        """Forget nothing: this policy has no memory."""

    def save(self, folder: Path) -> None:
        """Write `policy.json` and `policy.npz` into a folder."""
        description = {
            "kind": KIND,
            "format": 1,
            "observations": self.observations,
            "actions": self.actions,
            "network": {"sizes": list(self.network.sizes), "activation": self.network.activation},
        }
        arrays: dict[str, Array] = {}
        for i, (weight, bias) in enumerate(self.layers):
            arrays |= {f"layers/{i}/weight": weight, f"layers/{i}/bias": bias}
        if self.scale is not None:
            arrays |= {"observations/mean": self.scale.mean, "observations/std": self.scale.std}
        if self.log_std is not None:
            arrays["log_std"] = self.log_std
        (folder / DESCRIPTION_FILE).write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
        with (folder / ARRAYS_FILE).open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]


def load(folder: Path, description: dict[str, Any]) -> MLPPolicy:
    """Load the policy that a folder's description tells of."""
    with np.load(folder / ARRAYS_FILE, allow_pickle=False) as arrays:
        return _assemble(description, dict(arrays))


def _assemble(description: dict[str, Any], arrays: dict[str, Array]) -> MLPPolicy:
    network = MLP(tuple(description["network"]["sizes"]), description["network"]["activation"])
    count = len(network.sizes) - 1
    layers = [(arrays[f"layers/{i}/weight"], arrays[f"layers/{i}/bias"]) for i in range(count)]
    scale = None
    if "observations/mean" in arrays:
        scale = Scale(arrays["observations/mean"], arrays["observations/std"])
    actions = description["actions"]
    log_std = arrays["log_std"] if isinstance(distribution_for(actions), Gaussian) else None
    return MLPPolicy(description["observations"], actions, network, layers, scale, log_std)
