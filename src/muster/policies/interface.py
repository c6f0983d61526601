"""Between a simulator and a network: encoding and scale before it; mask, distribution and decoding after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.policies.distributions import distribution_for, masked
from muster.policies.scale import Scale
from muster.simulators.decoding import ActionDecoder
from muster.simulators.describing import Description
from muster.simulators.encoding import ObservationEncoder
from muster.simulators.masks import MaskReader

Array = NDArray[Any]


@dataclass
class Interface:
    """What a network needs to act in a simulator with these spaces."""

    observations: Description
    actions: Description
    scale: Scale | None

    def __post_init__(self) -> None:
        self.encoder = ObservationEncoder(self.observations)
        self.distribution = distribution_for(self.actions)
        self._decoder = ActionDecoder(self.actions)
        self._masks = MaskReader(self.observations, self.actions)
        self._row = np.zeros((1, self.encoder.size), np.float32)

    def inputs(self, observation: Any) -> Array:
        """Return an observation as the row `[1, size]` that the network reads."""
        self.encoder.encode_into(self._row[0], observation)
        return self._row if self.scale is None else self.scale.apply(self._row, np.empty_like(self._row))

    def allowed(self, outputs: Array, observation: Any, mask: Any) -> Array:
        """Apply the mask that is given, or else in the observation, to the network's outputs.

        Actions that take no mask ignore one, as they do in training.
        """
        is_given = mask is not None and self._masks.sizes
        checked = self._masks.checked(mask) if is_given else self._masks.read(observation, {})
        return outputs if checked is None else masked(outputs, checked[None])

    def action(self, outputs: Array, rng: np.random.Generator | None = None) -> Any:
        """Return the likeliest action, or one drawn with a generator, as the simulator's `step` takes it."""
        if rng is None:
            chosen = self.distribution.mode(outputs)
        else:
            chosen = self.distribution.sample(outputs, self.distribution.noise(rng, (1,)))
        return self._decoder.decode(chosen)[0]

    def describe(self) -> dict[str, Any]:
        """Return the spaces as `policy.json` holds them."""
        return {"observations": self.observations, "actions": self.actions}

    def arrays(self) -> dict[str, Array]:
        """Return the scale as `policy.npz` holds it."""
        if self.scale is None:
            return {}
        return {"observations/mean": self.scale.mean, "observations/std": self.scale.std}


def scale_in(arrays: dict[str, Array]) -> Scale | None:
    """Return the scale that `policy.npz` holds, if it does."""
    if "observations/mean" not in arrays:
        return None
    return Scale(arrays["observations/mean"], arrays["observations/std"])
