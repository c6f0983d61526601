"""Spaces as arrays: observations become rows of numbers, rows of numbers become actions. NumPy alone.

A space is kept as a plain description (a dict that JSON can hold), so that a saved policy encodes and
decodes without Gymnasium.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import gymnasium

Row = NDArray[np.float32]
Description = dict[str, Any]

_OBSERVATIONS = "Box, Discrete, MultiDiscrete or MultiBinary"
_ACTIONS = "Discrete, MultiDiscrete or Box"


class UnsupportedSpaceError(ValueError):
    """A space that the built-in engine has no encoding for."""


def describe_observations(space: gymnasium.Space[Any]) -> Description:
    """Describe an observation space.

    Raises:
        UnsupportedSpaceError: naming the space and what is supported.
    """
    return _describe(space, ("box", "discrete", "multi_discrete", "multi_binary"), "observation", _OBSERVATIONS)


def describe_actions(space: gymnasium.Space[Any]) -> Description:
    """Describe an action space.

    Raises:
        UnsupportedSpaceError: naming the space and what is supported.
    """
    return _describe(space, ("discrete", "multi_discrete", "box"), "action", _ACTIONS)


def _describe(space: gymnasium.Space[Any], kinds: tuple[str, ...], role: str, supported: str) -> Description:
    from gymnasium import spaces

    description: Description = {}
    match space:
        case spaces.Box():
            description = {
                "kind": "box",
                "shape": list(space.shape),
                "dtype": str(space.dtype),
                "low": _finite_or_none(space.low),
                "high": _finite_or_none(space.high),
            }
        case spaces.Discrete():
            description = {"kind": "discrete", "n": int(space.n), "start": int(space.start)}
        case spaces.MultiDiscrete():
            description = {
                "kind": "multi_discrete",
                "nvec": np.ravel(space.nvec).tolist(),
                "start": np.ravel(space.start).tolist(),
                "shape": list(space.shape),
                "dtype": str(space.dtype),
            }
        case spaces.MultiBinary():
            description = {"kind": "multi_binary", "shape": list(space.shape)}
    if description.get("kind") not in kinds:
        raise UnsupportedSpaceError(f"{role} space {space} is not supported; expected {supported}")
    return description


def _finite_or_none(bounds: NDArray[Any]) -> list[float | None]:
    return [float(bound) if np.isfinite(bound) else None for bound in np.ravel(bounds)]


class ObservationEncoder:
    """Copies an observation into a row of a float32 array; raises ValueError if it does not fit its space."""

    def __init__(self, description: Description) -> None:
        self.description = description
        self.encode_into: Callable[[Row, Any], None]
        kind = description["kind"]
        if kind == "discrete":
            self._sizes = np.array([description["n"]])
            self._start = np.array([description["start"]])
            self._shape: tuple[int, ...] = ()
        elif kind == "multi_discrete":
            self._sizes = np.array(description["nvec"])
            self._start = np.array(description["start"])
            self._shape = tuple(description["shape"])
        else:
            self._shape = tuple(description["shape"])
        if kind in ("discrete", "multi_discrete"):
            self._offsets = np.concatenate([[0], np.cumsum(self._sizes)[:-1]]) - self._start
            self.size = int(self._sizes.sum())
            self.encode_into = self._encode_choices
        else:
            self.size = int(np.prod(self._shape))
            self.encode_into = self._encode_numbers

    @property
    def scalable(self) -> NDArray[np.bool_]:
        """Which entries of a row are measurements that may be normalised, rather than one-hot choices."""
        return np.full(self.size, self.description["kind"] == "box")

    def _encode_numbers(self, row: Row, observation: Any) -> None:
        observation = np.asarray(observation)
        if observation.shape != self._shape:
            raise ValueError(f"observation has shape {observation.shape}, its space says {self._shape}")
        row[:] = observation.reshape(-1)

    def _encode_choices(self, row: Row, observation: Any) -> None:
        choices = np.asarray(observation)
        if choices.shape != self._shape:
            raise ValueError(f"observation has shape {choices.shape}, its space says {self._shape}")
        choices = choices.reshape(-1)
        relative = choices - self._start
        if (relative < 0).any() or (relative >= self._sizes).any():
            upper = self._start + self._sizes - 1
            raise ValueError(
                f"observation {choices.tolist()} lies outside its space: "
                f"{self._start.tolist()} to {upper.tolist()}"
            )
        row[:] = 0.0
        row[choices + self._offsets] = 1.0


class ActionDecoder:
    """Turns rows of the policy's choices into the simulator's actions.

    A bounded Box is seen by the policy as -1 to 1 and stretched to its bounds; beyond them it is clipped.
    """

    def __init__(self, description: Description) -> None:
        self.description = description
        self.decode: Callable[[NDArray[Any]], list[Any]]
        kind = description["kind"]
        if kind == "discrete":
            self._start = description["start"]
            self.decode = self._decode_choice
        elif kind == "multi_discrete":
            self._starts = np.array(description["start"])
            self._shape = tuple(description["shape"])
            self._dtype = np.dtype(description["dtype"])
            self.decode = self._decode_choices
        else:
            self._shape = tuple(description["shape"])
            self._dtype = np.dtype(description["dtype"])
            low, high = (np.array(description[end], dtype=float) for end in ("low", "high"))
            bounded = np.isfinite(low) & np.isfinite(high)
            self._centre = np.where(bounded, (low + high) / 2, 0.0)
            self._reach = np.where(bounded, (high - low) / 2, 1.0)
            self._low = np.where(np.isfinite(low), low, -np.inf)
            self._high = np.where(np.isfinite(high), high, np.inf)
            self.decode = self._decode_numbers

    def _decode_choice(self, rows: NDArray[Any]) -> list[Any]:
        return list((rows[:, 0] + self._start).tolist())

    def _decode_choices(self, rows: NDArray[Any]) -> list[Any]:
        return list((rows + self._starts).astype(self._dtype).reshape(len(rows), *self._shape))

    def _decode_numbers(self, rows: NDArray[Any]) -> list[Any]:
        actions = np.minimum(np.maximum(rows * self._reach + self._centre, self._low), self._high)
        if self._dtype.kind in "iu":
            actions = np.rint(actions)
        return list(actions.astype(self._dtype).reshape(len(rows), *self._shape))
