"""Failures on their way from workers to the run: each is sent when it happens, and taken once.

An actor keeps them, so that those of a worker that dies later are not lost with it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from muster.stepping.failures import SimulatorFailure

TAKE_SECONDS = 10.0


class _Inbox:
    """The actor; it takes no CPU."""

    def __init__(self) -> None:
        self._failures: list[SimulatorFailure] = []

    def put(self, failure: SimulatorFailure) -> None:
        self._failures.append(failure)

    def take(self) -> list[SimulatorFailure]:
        failures, self._failures = self._failures, []
        return failures


class FailureInbox:
    """Takes failures from any worker, for the process that has made it."""

    def __init__(self) -> None:
        import ray

        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        self._actor: Any = ray.remote(num_cpus=0, scheduling_strategy=here)(_Inbox).remote()
        self._answer: Any = None
        """What was asked for and is not there yet."""

    def __reduce__(self) -> Any:
        """A worker's copy only sends."""
        return _copy, (self._actor,)

    def put(self, failure: SimulatorFailure) -> None:
        """Send a failure, and wait until it has arrived; without an actor, the run has ended."""
        import ray

        with suppress(ray.exceptions.RayError):
            ray.get(self._actor.put.remote(failure))

    def take(self) -> list[SimulatorFailure]:
        """Return what has arrived since this was last called; if the answer is late, the next call returns it."""
        import ray

        self._answer = self._answer or self._actor.take.remote()
        failures: list[SimulatorFailure] = []
        try:
            failures = ray.get(self._answer, timeout=TAKE_SECONDS)
        except ray.exceptions.GetTimeoutError:
            return failures
        except ray.exceptions.RayError:
            pass
        self._answer = None
        return failures

    def close(self) -> None:
        """End the actor."""
        import ray

        ray.kill(self._actor)


def _copy(actor: Any) -> FailureInbox:
    inbox = FailureInbox.__new__(FailureInbox)
    inbox._actor, inbox._answer = actor, None
    return inbox
