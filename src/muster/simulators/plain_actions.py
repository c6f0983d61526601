"""A simulator's actions as JSON holds them, there and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

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
