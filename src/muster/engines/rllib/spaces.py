"""The simulator's spaces as RLlib sees them: observations as one Box, actions that count from zero.

Encoding happens beside the simulator and in the saved policy with the same code, so that what acts later sees
exactly what was trained with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from muster.simulators.encoding import Description, ObservationEncoder, describe_observations

Array = NDArray[Any]

_IMAGE_DIMENSIONS = 3
_BRIGHTEST = np.float32(255)


def describe(space: gymnasium.Space[Any]) -> Description:
    """Describe an observation space, of parts if it has them.

    Raises:
        UnsupportedSpaceError: naming the part that has no encoding.
    """
    match space:
        case spaces.Dict():
            return {"kind": "dict", "parts": {name: describe(part) for name, part in space.spaces.items()}}
        case spaces.Tuple():
            return {"kind": "tuple", "parts": [describe(part) for part in space.spaces]}
    return describe_observations(space)


def is_image(description: Description) -> bool:
    """Whether observations are pictures, which keep their shape."""
    return (
        description["kind"] == "box"
        and len(description["shape"]) == _IMAGE_DIMENSIONS
        and description["dtype"] == "uint8"
    )


class ObservationCoder:
    """Turns an observation into the float32 array that the network reads: a row, or an image from 0 to 1."""

    def __init__(self, description: Description) -> None:
        self._is_image = is_image(description)
        self._parts: list[tuple[tuple[str | int, ...], ObservationEncoder, slice]] = []
        size = 0
        for path, leaf in _leaves(description):
            encoder = ObservationEncoder(leaf)
            self._parts.append((path, encoder, slice(size, size + encoder.size)))
            size += encoder.size
        self.shape = tuple(description["shape"]) if self._is_image else (size,)
        self.scalable = np.concatenate([encoder.scalable for _, encoder, _ in self._parts])
        if self._is_image:
            self.scalable[:] = False

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
        row = np.empty(len(self.scalable), np.float32)
        for path, encoder, place in self._parts:
            part = observation
            for key in path:
                part = part[key]
            encoder.encode_into(row[place], part)
        if not np.isfinite(row).all():
            raise ValueError("observation is not finite")
        return row.reshape(self.shape) / _BRIGHTEST if self._is_image else row


def _leaves(
    description: Description, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], Description]]:
    if description["kind"] == "dict":
        for name, part in description["parts"].items():
            yield from _leaves(part, (*path, name))
    elif description["kind"] == "tuple":
        for index, part in enumerate(description["parts"]):
            yield from _leaves(part, (*path, index))
    else:
        yield path, description


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
