"""By what rules a simulator is judged, and how long its calls may take; plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    """A uint8 Box with one of `image_dimensions` is an image; without a `step_timeout` a call may take forever."""

    check_bounds: bool = True
    step_timeout: float | None = None
    image_dimensions: tuple[int, ...] = ()
