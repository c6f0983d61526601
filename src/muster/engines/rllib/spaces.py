"""The simulator's spaces as RLlib sees them: observations as one Box, actions that count from zero.

Encoding happens beside the simulator and in the saved policy with the same code, so that what acts later sees
exactly what was trained with.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from muster.simulators.describing import Description, is_channels_first
from muster.simulators.encoding import ObservationEncoder

Array = NDArray[Any]


class ObservationCoder:
    """Turns an observation into the float32 array that the network reads: a row, or an image from 0 to 1."""

    def __init__(self, description: Description) -> None:
        self.encoder = ObservationEncoder(description)
        self._is_image = description["kind"] == "image"
        self.shape = self.encoder.shape if self._is_image else (self.encoder.size,)
        self._moves_channels = self._is_image and is_channels_first(self.shape)
        if self._moves_channels:
            self.shape = (*self.shape[1:], self.shape[0])
        self.scalable = self.encoder.scalable

    @property
    def space(self) -> spaces.Box:
        """The space of what comes out."""
        low, high = (0.0, 1.0) if self._is_image else (-np.inf, np.inf)
        return spaces.Box(low, high, self.shape, np.float32)

    def encode(self, observation: Any) -> Array:
        """Return a new array.

        Raises:
            ValueError: if the observation does not fit its space, or is not finite.
        """
        row = np.empty(self.encoder.size, np.float32)
        self.encoder.encode_into(row, observation)
        if not np.isfinite(row).all():
            raise ValueError("observation is not finite")
        if self._moves_channels:
            return np.moveaxis(row.reshape(self.encoder.shape), 0, -1)
        return row.reshape(self.shape)


def action_space(description: Description) -> gymnasium.Space[Any]:
    """Return the space that RLlib chooses actions from."""
    match description["kind"]:
        case "discrete":
            return spaces.Discrete(description["n"])
        case "multi_discrete":
            return spaces.MultiDiscrete(description["nvec"])
    shape = tuple(description["shape"])
    low, high = (
        np.array([other if bound is None else bound for bound in description[end]], np.float32).reshape(shape)
        for end, other in (("low", -np.inf), ("high", np.inf))
    )
    return spaces.Box(low, high, shape, np.float32)


def decode_action(description: Description, action: Any) -> Any:
    """Turn RLlib's action, already within its bounds, into the simulator's."""
    match description["kind"]:
        case "discrete":
            return int(action) + description["start"]
        case "multi_discrete":
            choices = np.asarray(action) + np.array(description["start"])
            return choices.astype(description["dtype"]).reshape(description["shape"])
    numbers = np.asarray(action)
    if np.dtype(description["dtype"]).kind in "iu":
        numbers = np.rint(numbers)
    return numbers.astype(description["dtype"]).reshape(description["shape"])
