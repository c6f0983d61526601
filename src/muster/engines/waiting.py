"""Waiting for what an actor returns, as long as it is not in vain."""

from __future__ import annotations

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
        try:
            return ray.get(reference, timeout=POLL_SECONDS)
        except ray.exceptions.GetTimeoutError:
            if interrupted():
                raise SamplingAbandonedError from None
