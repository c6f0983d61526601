"""Rows of a policy's choices as the simulator's actions. NumPy alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.simulators.describing import Description, Keys, choice_sizes, leaves

Array = NDArray[Any]
Decode = Callable[[Array], list[Any]]
DecodeArray = Callable[[Array], Array]


class ActionDecoder:
    """Turns rows of the policy's choices into the simulator's actions.

    In a row, all choices come before all numbers. A bounded Box is seen by the policy as -1 to 1 and stretched
    to its bounds; beyond them it is clipped, or squashed into them by tanh.
    """

    def __init__(self, description: Description) -> None:
        self.description = description
        self.decode: Decode
        self.decode_array: DecodeArray | None = None
        """The same, as one array of all actions; None if they have parts."""
        if description["kind"] in ("dict", "tuple"):
            self.decode = _decoder_of_parts(description, (), columns(description))
        else:
            self.decode = _decoder_of_leaf(description)
            self.decode_array = _array_decoder_of_leaf(description)


def columns(description: Description) -> dict[Keys, slice]:
    """Return which entries of a row belong to each part of an action."""
    found, num_choices = {}, 0
    for path, leaf in leaves(description):
        if sizes := choice_sizes(leaf):
            found[path] = slice(num_choices, num_choices + len(sizes))
            num_choices += len(sizes)
    start = num_choices
    for path, leaf in leaves(description):
        if leaf["kind"] == "box":
            found[path] = slice(start, start + int(np.prod(leaf["shape"])))
            start = found[path].stop
    return found


def stretch_of(leaf: Description) -> tuple[Array, Array, Array, Array]:
    """Return the centre and reach that stretch a Box's entries to its bounds, and the bounds; all flat."""
    low, high = (np.array(leaf[end], dtype=float) for end in ("low", "high"))
    bounded = np.isfinite(low) & np.isfinite(high)
    return (
        np.where(bounded, (low + high) / 2, 0.0),
        np.where(bounded, (high - low) / 2, 1.0),
        np.where(np.isfinite(low), low, -np.inf),
        np.where(np.isfinite(high), high, np.inf),
    )


def squashed_entries(leaf: Description) -> Array:
    """Return which entries of a Box go through tanh: those with bounds, if it is to be squashed."""
    _, _, low, high = stretch_of(leaf)
    return np.isfinite(low) & np.isfinite(high) & bool(leaf.get("squash"))


def _decoder_of_parts(description: Description, path: Keys, places: dict[Keys, slice]) -> Decode:
    if description["kind"] == "dict":
        names = list(description["parts"])
        decoders = [_decoder_of_parts(description["parts"][name], (*path, name), places) for name in names]
        return lambda rows: [
            dict(zip(names, values, strict=True))
            for values in zip(*(decode(rows) for decode in decoders), strict=True)
        ]
    if description["kind"] == "tuple":
        decoders = [_decoder_of_parts(part, (*path, i), places) for i, part in enumerate(description["parts"])]
        return lambda rows: list(zip(*(decode(rows) for decode in decoders), strict=True))
    decode, place = _decoder_of_leaf(description), places[path]
    dtype = np.float32 if description["kind"] == "box" else np.int64
    return lambda rows: decode(rows[:, place].astype(dtype))


def _decoder_of_leaf(leaf: Description) -> Decode:
    decode = _array_decoder_of_leaf(leaf)
    if leaf["kind"] == "discrete":
        return lambda rows: list(decode(rows).tolist())
    return lambda rows: list(decode(rows))


def _array_decoder_of_leaf(leaf: Description) -> DecodeArray:
    match leaf["kind"]:
        case "discrete":
            start = leaf["start"]
            return lambda rows: rows[:, 0] + start
        case "multi_discrete":
            starts, shape, dtype = np.array(leaf["start"]), tuple(leaf["shape"]), np.dtype(leaf["dtype"])
            return lambda rows: (rows + starts).astype(dtype).reshape(len(rows), *shape)
        case "multi_binary":
            shape = tuple(leaf["shape"])
            return lambda rows: rows.astype(np.int8).reshape(len(rows), *shape)
    return _decoder_of_box(leaf)


def _decoder_of_box(leaf: Description) -> DecodeArray:
    shape, dtype = tuple(leaf["shape"]), np.dtype(leaf["dtype"])
    centre, reach, low, high = stretch_of(leaf)
    squashed = squashed_entries(leaf)
    squashes = bool(squashed.any())

    def decode(rows: Array) -> Array:
        if squashes:
            rows = np.where(squashed, np.tanh(rows), rows)
        actions = np.minimum(np.maximum(rows * reach + centre, low), high)
        if dtype.kind in "iu":
            actions = np.rint(actions)
        stretched: Array = actions.astype(dtype).reshape(len(rows), *shape)
        return stretched

    return decode
