"""Observations as rows of numbers. NumPy alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.simulators.describing import Description, Keys, leaves

Row = NDArray[np.float32]

BRIGHTEST = np.float32(255)


class ObservationEncoder:
    """Copies an observation into a row of a float32 array; raises ValueError if it does not fit its space.

    The parts of a Dict or Tuple follow one another; a choice is one-hot, an image runs from 0 to 1.
    """

    def __init__(self, description: Description) -> None:
        self.description = description
        self.encode_into: Callable[[Row, Any], None]
        self._parts: list[tuple[Keys, _Leaf, slice]] = []
        self.size = 0
        for path, leaf in leaves(description):
            encoder = _encoder_of(leaf, "observation" + "".join(f"[{key!r}]" for key in path))
            self._parts.append((path, encoder, slice(self.size, self.size + encoder.size)))
            self.size += encoder.size
        whole = self._parts[0][1] if len(self._parts) == 1 and not self._parts[0][0] else None
        self.encode_into = self._encode_parts if whole is None else whole.encode_into

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an observation before it became a row, if it is a single Box; else that of the row."""
        if self.description["kind"] in ("box", "image"):
            return tuple(self.description["shape"])
        return (self.size,)

    @property
    def images(self) -> list[tuple[int, tuple[int, ...]]]:
        """Where in a row the images begin, and their shapes."""
        return [
            (place.start, tuple(leaf.description["shape"]))
            for _, leaf, place in self._parts
            if leaf.description["kind"] == "image"
        ]

    @property
    def is_all_pixels(self) -> bool:
        """Whether there is nothing but images."""
        return all(leaf.description["kind"] == "image" for _, leaf, _ in self._parts)

    @property
    def parts(self) -> list[tuple[str, Description, slice]]:
        """The parts that have no parts: each with its name, as messages have it, and its place in a row."""
        return [(leaf.name, leaf.description, place) for _, leaf, place in self._parts]

    @property
    def scalable(self) -> NDArray[np.bool_]:
        """Which entries of a row are measurements that may be normalised, rather than choices or pixels."""
        kinds = [np.full(leaf.size, leaf.description["kind"] == "box") for _, leaf, _ in self._parts]
        return np.concatenate([np.zeros(0, bool), *kinds])

    def _encode_parts(self, row: Row, observation: Any) -> None:
        for path, leaf, place in self._parts:
            part = observation
            try:
                for key in path:
                    part = part[key]
            except (KeyError, IndexError, TypeError):
                raise ValueError(f"{leaf.name} is missing") from None
            leaf.encode_into(row[place], part)


class _Numbers:
    """A Box or MultiBinary, entry by entry."""

    def __init__(self, description: Description, name: str) -> None:
        self.description, self.name = description, name
        self._shape = tuple(description["shape"])
        self.size = int(np.prod(self._shape))

    def encode_into(self, row: Row, observation: Any) -> None:
        numbers = _as_array(observation, self.name)
        if numbers.shape != self._shape:
            raise ValueError(f"{self.name} has shape {numbers.shape}, its space says {self._shape}")
        try:
            row[:] = numbers.reshape(-1)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self.name} has dtype {numbers.dtype}, expected numbers: {error}") from None


class _Pixels(_Numbers):
    """An image, from 0 to 1."""

    def encode_into(self, row: Row, observation: Any) -> None:
        pixels = _as_array(observation, self.name)
        if pixels.dtype.kind not in "iu":
            raise ValueError(f"{self.name} has dtype {pixels.dtype}, its space says uint8")
        super().encode_into(row, pixels)
        row /= BRIGHTEST


class _Choices:
    """A Discrete or MultiDiscrete: each choice one-hot."""

    def __init__(self, description: Description, name: str) -> None:
        self.description, self.name = description, name
        self._shape = tuple(description.get("shape", ()))
        self._sizes = np.array(description["nvec"] if "nvec" in description else [description["n"]])
        self._start = np.ravel(description["start"])
        self._ends = self._sizes.astype(np.uint64)
        self._offsets = np.concatenate([[0], np.cumsum(self._sizes)[:-1]])
        self.size = int(self._sizes.sum())

    def encode_into(self, row: Row, observation: Any) -> None:
        choices = _as_array(observation, self.name)
        if choices.shape != self._shape:
            raise ValueError(f"{self.name} has shape {choices.shape}, its space says {self._shape}")
        if choices.dtype.kind not in "iub":
            raise ValueError(f"{self.name} has dtype {choices.dtype}, expected whole numbers")
        choices = choices.reshape(-1)
        relative = choices.astype(np.int64, copy=False) - self._start
        # Read without a sign, what is below zero is very large.
        if np.count_nonzero(relative.view(np.uint64) >= self._ends):
            upper = self._start + self._sizes - 1
            raise ValueError(
                f"{self.name} {choices.tolist()} lies outside its space: "
                f"{self._start.tolist()} to {upper.tolist()}"
            )
        row[:] = 0.0
        row[relative + self._offsets] = 1.0


_Leaf = _Numbers | _Choices


def _as_array(observation: Any, name: str) -> NDArray[Any]:
    try:
        return np.asarray(observation)
    except ValueError as error:
        raise ValueError(f"{name} is no array: {error}") from None


def _encoder_of(leaf: Description, name: str) -> _Leaf:
    match leaf["kind"]:
        case "discrete" | "multi_discrete":
            return _Choices(leaf, name)
        case "image":
            return _Pixels(leaf, name)
    return _Numbers(leaf, name)
