"""Observations as rows of numbers. NumPy alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from muster.simulators.describing import Description, Keys, leaves

Row = NDArray[Any]

BRIGHTEST = np.float32(255)
MANY = 16
"""Among how many a choice must be, on average, for its column's number to be cheaper to compute with than ones."""


class RowEncoder(Protocol):
    """Copies an observation into a row of an array; raises ValueError if it does not fit its space."""

    dtype: type[Any]

    @property
    def width(self) -> int:
        """Length of a row."""

    def encode_into(self, row: Row, observation: Any) -> None:
        """Write an observation to a row."""

    def encode_batch(self, rows: Row, observations: Any) -> dict[int, str]:
        """Write a batch to rows: observations of as many simulators, stacked part by part.

        Returns what is wrong with those that do not fit their space; raises ValueError if the batch does not.
        """


class ObservationEncoder:
    """Rows of numbers, as a network reads them.

    The parts of a Dict or Tuple follow one another; a choice is one-hot, an image runs from 0 to 1.
    """

    dtype = np.float32

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
    def width(self) -> int:
        """Length of a row."""
        return self.size

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

    def columns(self) -> ColumnEncoder | None:
        """Return what writes the numbers of columns instead, if there is nothing but choices, each among many."""
        choices = [(path, leaf, place) for path, leaf, place in self._parts if isinstance(leaf, _Choices)]
        count = sum(leaf.count for _, leaf, _ in choices)
        is_worthwhile = len(choices) == len(self._parts) and 0 < MANY * count <= self.size
        return ColumnEncoder(choices) if is_worthwhile else None

    def encode_batch(self, rows: Row, observations: Any) -> dict[int, str]:
        """Write a batch to rows; return what is wrong with those that do not fit."""
        problems: dict[int, str] = {}
        for path, leaf, place in self._parts:
            problems |= leaf.encode_batch(rows[:, place], _part(observations, path, leaf.name))
        return problems

    def _encode_parts(self, row: Row, observation: Any) -> None:
        for path, leaf, place in self._parts:
            leaf.encode_into(row[place], _part(observation, path, leaf.name))


class ColumnEncoder:
    """Rows of whole numbers: of those columns that are 1 where `ObservationEncoder` would write a one-hot row.

    Choices that lie outside their space are written as they are; `problem` tells of them.
    """

    dtype = np.intp

    def __init__(self, choices: Sequence[tuple[Keys, _Choices, slice]]) -> None:
        self._parts = []
        self.width = 0
        for path, leaf, place in choices:
            self._parts.append((path, leaf, slice(self.width, self.width + leaf.count), place.start))
            self.width += leaf.count
        self._whole = self._parts[0][1] if len(self._parts) == 1 and not self._parts[0][0] else None
        self.first = np.concatenate([start + leaf.offsets for _, leaf, _, start in self._parts])
        self.count = np.concatenate([leaf.sizes for _, leaf, _, _ in self._parts])

    def encode_into(self, row: Row, observation: Any) -> None:
        """Write an observation to a row."""
        if self._whole is not None:
            row[:] = self._whole.columns(observation)
            return
        for path, leaf, place, start in self._parts:
            np.add(leaf.columns(_part(observation, path, leaf.name)), start, out=row[place])

    def encode_batch(self, rows: Row, observations: Any) -> dict[int, str]:
        """Write a batch to rows; `problem` finds what is wrong with one."""
        for path, leaf, place, start in self._parts:
            columns = leaf.columns(_part(observations, path, leaf.name), len(rows))
            np.add(columns, start, out=rows[:, place])
        return {}

    def problem(self, row: Row) -> str | None:
        """Return what is wrong with one row, or None."""
        problems = (leaf.problem(row[place] - start) for _, leaf, place, start in self._parts)
        return next((problem for problem in problems if problem), None)


class _Numbers:
    """A Box or MultiBinary, entry by entry."""

    def __init__(self, description: Description, name: str) -> None:
        self.description, self.name = description, name
        self._shape = tuple(description["shape"])
        self.size = int(np.prod(self._shape))

    def encode_into(self, row: Row, observation: Any) -> None:
        # Calls are spared here: this is in the loop that training spends its time in.
        numbers = observation if type(observation) is np.ndarray else _as_array(observation, self.name)
        if numbers.shape != self._shape:
            raise ValueError(f"{self.name} has shape {numbers.shape}, its space says {self._shape}")
        try:
            row[:] = numbers.reshape(-1)
        except (TypeError, ValueError) as error:
            raise self._no_numbers(numbers, error) from None

    def encode_batch(self, rows: Row, observations: Any) -> dict[int, str]:
        numbers = _as_batch(observations, len(rows), self._shape, self.name)
        self._copy(rows, numbers.reshape(len(rows), -1))
        return {}

    def _copy(self, rows: Row, numbers: NDArray[Any]) -> None:
        try:
            rows[:] = numbers
        except (TypeError, ValueError) as error:
            raise self._no_numbers(numbers, error) from None

    def _no_numbers(self, numbers: NDArray[Any], error: Exception) -> ValueError:
        return ValueError(f"{self.name} has dtype {numbers.dtype}, expected numbers: {error}")


class _Pixels(_Numbers):
    """An image, from 0 to 1."""

    def encode_into(self, row: Row, observation: Any) -> None:
        pixels = _as_array(observation, self.name)
        if pixels.shape != self._shape:
            raise ValueError(f"{self.name} has shape {pixels.shape}, its space says {self._shape}")
        self._copy(row, pixels.reshape(-1))

    def _copy(self, rows: Row, numbers: NDArray[Any]) -> None:
        if numbers.dtype.kind not in "iu":
            raise ValueError(f"{self.name} has dtype {numbers.dtype}, its space says uint8")
        super()._copy(rows, numbers)
        rows /= BRIGHTEST


class _Choices:
    """A Discrete or MultiDiscrete: each choice one-hot."""

    def __init__(self, description: Description, name: str) -> None:
        self.description, self.name = description, name
        self._shape = tuple(description.get("shape", ()))
        self.sizes = np.array(description["nvec"] if "nvec" in description else [description["n"]])
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        self._start = np.ravel(description["start"])
        self._shift = self.offsets - self._start
        self.size = int(self.sizes.sum())
        self.count = len(self.sizes)

    def encode_into(self, row: Row, observation: Any) -> None:
        columns = self.columns(observation)
        if problem := self.problem(columns):
            raise ValueError(problem)
        row[:] = 0.0
        row[columns] = 1.0

    def encode_batch(self, rows: Row, observations: Any) -> dict[int, str]:
        columns = self.columns(observations, len(rows))
        rows[:] = 0.0
        if are_within(columns, self.offsets, self.sizes):
            np.put_along_axis(rows, columns, 1.0, axis=1)
            return {}
        problems = {i: self.problem(each) for i, each in enumerate(columns)}
        for i in (i for i, problem in problems.items() if problem is None):
            rows[i, columns[i]] = 1.0
        return {i: problem for i, problem in problems.items() if problem}

    def columns(self, observation: Any, count: int | None = None) -> NDArray[np.int64]:
        """Return which entries of the row are 1; those of choices that lie outside are not this part's.

        With a `count`, a row of them for each of so many observations.
        """
        if count is None:
            choices = _as_array(observation, self.name)
            if choices.shape != self._shape:
                raise ValueError(f"{self.name} has shape {choices.shape}, its space says {self._shape}")
            choices = choices.reshape(-1)
        else:
            choices = _as_batch(observation, count, self._shape, self.name).reshape(count, -1)
        if choices.dtype.kind not in "iub":
            raise ValueError(f"{self.name} has dtype {choices.dtype}, expected whole numbers")
        columns: NDArray[np.int64] = np.add(choices, self._shift, dtype=np.int64, casting="unsafe")
        return columns

    def problem(self, columns: NDArray[np.int64]) -> str | None:
        """Return what is wrong with choices, given their columns, or None."""
        if are_within(columns, self.offsets, self.sizes):
            return None
        upper = self._start + self.sizes - 1
        return (
            f"{self.name} {(columns - self._shift).tolist()} lies outside its space: "
            f"{self._start.tolist()} to {upper.tolist()}"
        )


_Leaf = _Numbers | _Choices


def are_within(columns: NDArray[np.int64], first: NDArray[np.int64], count: NDArray[np.int64]) -> bool:
    """Return whether each column is one of so many from the first of its choice on."""
    # Read without a sign, what is below zero is very large.
    return not np.count_nonzero((columns - first).view(np.uint64) >= count.view(np.uint64))


def _part(observation: Any, path: Keys, name: str) -> Any:
    try:
        for key in path:
            observation = observation[key]
    except (KeyError, IndexError, TypeError):
        raise ValueError(f"{name} is missing") from None
    return observation


def _as_array(observation: Any, name: str) -> NDArray[Any]:
    try:
        return np.asarray(observation)
    except ValueError as error:
        raise ValueError(f"{name} is no array: {error}") from None


def _as_batch(observations: Any, count: int, shape: tuple[int, ...], name: str) -> NDArray[Any]:
    array = _as_array(observations, name)
    if array.shape != (count, *shape):
        raise ValueError(f"{name} of the batch has shape {array.shape}, expected {(count, *shape)}")
    return array


def _encoder_of(leaf: Description, name: str) -> _Leaf:
    match leaf["kind"]:
        case "discrete" | "multi_discrete":
            return _Choices(leaf, name)
        case "image":
            return _Pixels(leaf, name)
    return _Numbers(leaf, name)
