"""The calls that a simulator gets, and which of them is under way."""

from __future__ import annotations

from enum import IntEnum


class Call(IntEnum):
    """What a simulator is asked to do."""

    NONE = 0
    BUILD = 1
    RESET = 2
    STEP = 3
    CLOSE = 4
    RENDER = 5

    @property
    def word(self) -> str:
        """The name of the call in messages and records."""
        return self.name.lower()


UnderWay = tuple[Call, tuple[int, ...]]
"""A call that is under way, and numbers that distinguish it from every other in this process."""
