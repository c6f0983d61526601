"""How what happens in env runners reaches the engine: an actor of its own, apart from RLlib's metrics.

RLlib's own metrics have no list of episodes, and arrive only with a successful sample; a simulator that fails for
good must be heard of at once.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import ray

from muster.engines.rllib.process_state import PROCESS, InForce, Sample
from muster.errors import MusterError


class ReportActor:
    """Keeps samples until the engine takes them, and tells env runners what is in force."""

    def __init__(self) -> None:
        self._samples: list[Sample] = []
        self._joined: Counter[int] = Counter()
        self._runners: dict[int, Any] = {}
        self._in_force = InForce()
        self._given_up: MusterError | None = None
        self._num_samples = 0

    def join(self, worker: int, runner: Any) -> int:
        """Get to know an env runner; return how often one of that number was here before."""
        self._runners[worker] = runner
        self._joined[worker] += 1
        return self._joined[worker] - 1

    def post(self, sample: Sample, given_up: MusterError | None = None) -> None:
        """Take a sample; with an error if the simulator fails again and again."""
        self._samples.append(sample)
        self._num_samples += 1
        self._given_up = self._given_up or given_up

    def news(self) -> tuple[MusterError | None, int]:
        """Return the error that ends the run, if there is one, and the number of samples so far."""
        return self._given_up, self._num_samples

    def take(self) -> Sample:
        """Return all that was sampled since this was last called."""
        samples, self._samples = self._samples, []
        return Sample.joined(samples)

    def runners(self) -> list[Any]:
        """Return the env runners."""
        return list(self._runners.values())

    def put_in_force(self, in_force: InForce) -> None:
        """Replace what is in force."""
        self._in_force = in_force

    def in_force(self) -> InForce:
        """Return what is in force."""
        return self._in_force


def start_report_actor() -> Any:
    """Start the actor, on this host: it takes no CPU."""
    here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=False
    )
    return ray.remote(num_cpus=0, scheduling_strategy=here)(ReportActor).remote()


def report_sample(**_: Any) -> None:
    """Send what happened in a `sample()` to the report actor; RLlib calls this at its end, in the env runner."""
    if PROCESS.link is not None:
        ray.get(PROCESS.link.reports.post.remote(PROCESS.take()))
