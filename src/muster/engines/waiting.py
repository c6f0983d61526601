"""Waiting for what an actor returns, as long as it is not in vain."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from muster.stepping.failures import Interrupted, SamplingAbandonedError

POLL_SECONDS = 0.2


def get(reference: Any, interrupted: Interrupted) -> Any:
    """Return what an actor returns.

    Raises:
        SamplingAbandonedError, RayLostError: when `interrupted` says so.
    """
    import ray

    while True:
        # Without its store of objects, Ray would end this process when it is asked for one.
        if interrupted():
            raise SamplingAbandonedError
        with suppress(ray.exceptions.GetTimeoutError):
            return ray.get(reference, timeout=POLL_SECONDS)


def patient(interrupted: Interrupted, seconds: float) -> Interrupted:
    """Return `interrupted`, but false for the first seconds, so that an abandoned run can still be closed."""
    deadline = time.monotonic() + seconds
    return lambda: interrupted() and time.monotonic() > deadline
