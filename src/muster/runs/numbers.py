"""Numbers of a run folder, in whose files may be anything: only those that a float or 64 bits hold count."""

from __future__ import annotations

import json
import math
from typing import Any

LARGEST_WHOLE = 2**63 - 1


def finite(value: object) -> float | None:
    """Return a number, or the text of one, as a finite float; None for anything else."""
    if not isinstance(value, int | float | str) or isinstance(value, bool):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def parse_json(text: str | bytes) -> Any:
    """Return what JSON says, with None for numbers that are not finite or have more than 64 bits.

    Raises:
        ValueError: if it is not valid.
        RecursionError: if it is nested too deeply.
    """
    return json.loads(text, parse_float=finite, parse_int=_whole, parse_constant=finite)


def _whole(digits: str) -> int | None:
    value = finite(digits)
    return int(digits) if value is not None and abs(value) <= LARGEST_WHOLE else None
