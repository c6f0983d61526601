"""Spaces of Gymnasium's own classes, whatever a simulator derived from them: any process can unpickle these."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from gymnasium import spaces


class UnknownSpace(spaces.Space[Any]):
    """A space of a kind that has no encoding; as text, it is what the simulator's own was."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def __repr__(self) -> str:
        return self._text


def plain_space(space: Any) -> spaces.Space[Any]:
    """Return a space of Gymnasium's own classes that is like another."""
    match space:
        case spaces.Dict():
            return spaces.Dict(OrderedDict((key, plain_space(part)) for key, part in space.spaces.items()))
        case spaces.Tuple():
            return spaces.Tuple([plain_space(part) for part in space.spaces])
        case spaces.Box():
            return spaces.Box(space.low, space.high, space.shape, space.dtype)  # type: ignore[arg-type]
        case spaces.Discrete():
            return spaces.Discrete(int(space.n), start=int(space.start))
        case spaces.MultiDiscrete():
            return spaces.MultiDiscrete(space.nvec, space.dtype, start=space.start)  # type: ignore[arg-type]
        case spaces.MultiBinary():
            return spaces.MultiBinary(space.n)
    return UnknownSpace(str(space))
