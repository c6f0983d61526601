"""Metrics of the user's own: numbers that a simulator puts into `info`, reduced to one for each episode."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, SupportsFloat

import numpy as np

Number = float | None


class Episode(NamedTuple):
    """How a finished episode went; a metric is None if no step of it had that number."""

    total: float
    length: int
    metrics: tuple[Number, ...] = ()


def _latest(_: float, value: float) -> float:
    return value


def _add(total: float, value: float) -> float:
    return total + value


_FOLDS: dict[str, Callable[[float, float], float]] = {
    "sum": _add,
    "mean": _add,
    "last": _latest,
    "min": min,
    "max": max,
}
REDUCTIONS = tuple(_FOLDS)
"""How the numbers of an episode's steps become one."""


class InfoMetrics:
    """Reduces the numbers of some simulators' episodes while they are under way."""

    def __init__(self, wanted: Mapping[str, str], num_envs: int) -> None:
        """Take names, as they stand in `info`, and how each is reduced."""
        self._metrics = [(name, _FOLDS[how], how == "mean") for name, how in wanted.items()]
        self._values: list[list[Number]] = [self._nothing() for _ in range(num_envs)]
        self._counts = [[0] * len(self._metrics) for _ in range(num_envs)]

    def __bool__(self) -> bool:
        return bool(self._metrics)

    def add(self, i: int, info: Any) -> None:
        """Take the `info` of a simulator's step."""
        self._add(i, (number_in(info, name) for name, _, _ in self._metrics))

    def add_batch(self, infos: Any, which: Sequence[int]) -> None:
        """Take what a batch returned for some of its simulators."""
        columns = [_batch_column(infos, name) for name, _, _ in self._metrics]
        for i in which:
            self._add(i, (_entry(column, i) for column in columns))

    def take(self, i: int) -> tuple[Number, ...]:
        """Return the metrics of a simulator's finished episode, and begin the next one's."""
        means = [is_mean for _, _, is_mean in self._metrics]
        taken = tuple(
            value / count if is_mean and value is not None else value
            for value, count, is_mean in zip(self._values[i], self._counts[i], means, strict=True)
        )
        self.drop(i)
        return taken

    def drop(self, i: int) -> None:
        """Forget the episode under way."""
        self._values[i], self._counts[i] = self._nothing(), [0] * len(self._metrics)

    def state(self) -> Any:
        """Return what the episodes under way have so far."""
        return self._values, self._counts

    def restore(self, state: Any) -> None:
        """Continue from a saved state."""
        self._values, self._counts = state

    def _nothing(self) -> list[Number]:
        return [None] * len(self._metrics)

    def _add(self, i: int, numbers: Iterator[Number]) -> None:
        values, counts = self._values[i], self._counts[i]
        for k, ((_, fold, _), number) in enumerate(zip(self._metrics, numbers, strict=True)):
            if number is not None:
                before = values[k]
                values[k] = number if before is None else fold(before, number)
                counts[k] += 1


def mean_of(values: Iterable[Number]) -> Number:
    """Return the mean of those that are there; None if none is, or the mean is no number."""
    there = [value for value in values if value is not None]
    mean = float(np.mean(there)) if there else math.nan
    return mean if math.isfinite(mean) else None


def number_in(info: Any, name: str) -> Number:
    """Return a number of an `info` by its name, or by its path with dots; None if there is no such number."""
    return _as_number(_find(info, name))


def numbers_of(info: Any, prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield all numbers of an `info`, by the names that `number_in` knows them by."""
    if not isinstance(info, Mapping):
        return
    for key, value in info.items():
        if isinstance(key, str):
            if isinstance(value, Mapping):
                yield from numbers_of(value, f"{prefix}{key}.")
            elif (number := _as_number(value)) is not None:
                yield f"{prefix}{key}", number


def _find(info: Any, name: str) -> Any:
    """Look for a whole name first: a key may have dots in it."""
    if not isinstance(info, Mapping):
        return None
    if name in info:
        return info[name]
    first, _, rest = name.partition(".")
    return _find(info.get(first), rest) if rest else None


def _as_number(value: Any) -> Number:
    if isinstance(value, float):
        return float(value)
    kind = getattr(getattr(value, "dtype", None), "kind", "f")
    is_scalar = isinstance(value, SupportsFloat) and kind in "biuf" and getattr(value, "ndim", 0) == 0
    try:
        return float(value) if is_scalar else None
    except (TypeError, ValueError, OverflowError):
        return None


def _batch_column(infos: Any, name: str) -> Any:
    """Return the values of all simulators of a batch, None for those that have none."""
    values = _find(infos, name)
    if values is None:
        return None
    *parents, last = name.split(".")
    given = _find(infos, ".".join([*parents, f"_{last}"]))
    column = np.asarray(values)
    if given is not None:
        column = column.astype(object)
        column[~np.asarray(given, bool)] = None
    return column


def _entry(column: Any, i: int) -> Number:
    return None if column is None or column.ndim != 1 or i >= len(column) else _as_number(column[i])
