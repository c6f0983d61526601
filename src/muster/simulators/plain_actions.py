"""A simulator's actions as JSON holds them, or as rows of numbers, there and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from muster.simulators.describing import Description

if TYPE_CHECKING:
    import gymnasium


def plain(action: Any) -> Any:
    """Return an action, or a part of one, as numbers, lists and dicts."""
    if isinstance(action, dict):
        return {key: plain(part) for key, part in action.items()}
    if isinstance(action, tuple):
        return [plain(part) for part in action]
    return action.tolist() if isinstance(action, np.ndarray | np.generic) else action


def action_of(space: gymnasium.Space[Any], value: Any) -> Any:
    """Return the action of a space that was made plain."""
    from gymnasium import spaces

    match space:
        case spaces.Dict():
            return {key: action_of(part, value[key]) for key, part in space.spaces.items()}
        case spaces.Tuple():
            return tuple(action_of(part, item) for part, item in zip(space.spaces, value, strict=True))
        case spaces.Discrete():
            return value
    return np.asarray(value, space.dtype)


def action_row(description: Description, action: Any) -> NDArray[np.float64]:
    """Return the numbers of an action, part by part."""
    return np.concatenate([np.ravel(np.asarray(number, np.float64)) for number in _numbers(description, action)])


def plain_of_row(description: Description, row: NDArray[Any]) -> Any:
    """Return the action of such a row, as JSON holds it."""
    value, rest = _taken(description, row)
    assert not len(rest)
    return value


def _numbers(description: Description, action: Any) -> list[Any]:
    match description["kind"]:
        case "dict":
            parts = description["parts"].items()
            return [number for key, part in parts for number in _numbers(part, action[key])]
        case "tuple":
            pairs = zip(description["parts"], action, strict=True)
            return [number for part, item in pairs for number in _numbers(part, item)]
    return [action]


def _taken(description: Description, row: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
    match description["kind"]:
        case "dict":
            values = {}
            for key, part in description["parts"].items():
                values[key], row = _taken(part, row)
            return values, row
        case "tuple":
            items = []
            for part in description["parts"]:
                item, row = _taken(part, row)
                items.append(item)
            return items, row
        case "discrete":
            return int(row[0]), row[1:]
    shape = tuple(description["shape"])
    size = int(np.prod(shape))
    numbers = row[:size].reshape(shape)
    is_whole = description["kind"] != "box" or np.dtype(description["dtype"]).kind in "iub"
    return (numbers.astype(np.int64) if is_whole else numbers).tolist(), row[size:]
