"""Rows that are pixels and nothing else, as bytes: a quarter of the memory, and the same numbers to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.simulators.encoding import BRIGHTEST

Array = NDArray[Any]


def packed(rows: Array) -> Array:
    """Return encoded pixels, from 0 to 1, as bytes."""
    return np.rint(np.clip(rows * BRIGHTEST, 0, BRIGHTEST)).astype(np.uint8)


def unpacked(rows: Array) -> Array:
    """Return rows as a network reads them: bytes as the pixels that they were, others as they are."""
    return np.divide(rows, BRIGHTEST, dtype=np.float32) if rows.dtype == np.uint8 else rows
