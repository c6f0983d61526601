"""Waiting for a condition, with a limit and a name for what is waited for."""

import time
from collections.abc import Callable
from typing import TypeVar

from .errors import WaitTimeoutError

INTERVAL_S = 0.05

Answer = TypeVar("Answer")


def wait_until(condition: Callable[[], Answer], what: str, limit_s: float = 30.0) -> Answer:
    """Ask `condition` until its answer is true, and return that answer."""
    deadline = time.monotonic() + limit_s
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise WaitTimeoutError(f"waited {limit_s:g} s for {what}")
        time.sleep(INTERVAL_S)
