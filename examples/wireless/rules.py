"""A rule to compare the agent with: each phone keeps a connection to its strongest station alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

STATIONS = 3


def strongest_station(observation: NDArray[Any]) -> NDArray[np.int64]:
    """Return for each phone what to change: 0 nothing, else the station to connect to or to leave."""
    phones = observation.reshape(-1, 2 * STATIONS + 1)
    return np.array([_change(phone[:STATIONS] > 0, phone[STATIONS : 2 * STATIONS]) for phone in phones])


def _change(connected: NDArray[np.bool_], strength: NDArray[Any]) -> int:
    best = int(np.argmax(strength))
    if not connected[best]:
        return best + 1
    others = [station for station in range(STATIONS) if connected[station] and station != best]
    return others[0] + 1 if others else 0
