"""Waiting for something with a limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

POLL_SECONDS = 0.05

T = TypeVar("T")


def wait_for(look: Callable[[], T | None], seconds: float) -> T | None:
    """Look many times a second until there is something, at most so long."""
    deadline = time.monotonic() + seconds
    while (found := look()) is None and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return found
