"""How what happens in env runners reaches the engine: an actor of its own, apart from RLlib's metrics.

RLlib's own metrics have no list of episodes, and arrive only with a successful sample; a simulator that fails for
good must be heard of at once.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import ray

from muster.engines.rllib.station import STATION, Report, Scales


class Collector:
    """Keeps reports until the engine takes them, and tells env runners the scales."""

    def __init__(self) -> None:
        self._reports: list[Report] = []
        self._joined: Counter[int] = Counter()
        self._runners: dict[int, Any] = {}
        self._scales = Scales()
        self._last_words: str | None = None
        self._num_reports = 0

    def join(self, worker: int, runner: Any) -> int:
        """Get to know an env runner; return how often one of that number was here before."""
        self._runners[worker] = runner
        self._joined[worker] += 1
        return self._joined[worker] - 1

    def post(self, report: Report, last_words: str | None = None) -> None:
        """Take a report; with last words if the simulator fails again and again."""
        self._reports.append(report)
        self._num_reports += 1
        self._last_words = self._last_words or last_words

    def news(self) -> tuple[str | None, int]:
        """Return the last words, if there are any, and the number of reports so far."""
        return self._last_words, self._num_reports

    def take(self) -> Report:
        """Return all that was reported since this was last called."""
        reports, self._reports = self._reports, []
        return Report.joined(reports)

    def runners(self) -> list[Any]:
        """Return the env runners."""
        return list(self._runners.values())

    def set_scales(self, scales: Scales) -> None:
        """Replace the scales."""
        self._scales = scales

    def scales(self) -> Scales:
        """Return the scales in use."""
        return self._scales


def start_collector() -> Any:
    """Start the actor, on this host: it takes no CPU."""
    here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=False
    )
    return ray.remote(num_cpus=0, scheduling_strategy=here)(Collector).remote()


def report_sample(**_: Any) -> None:
    """Send what happened in a `sample()` to the collector; RLlib calls this at its end, in the env runner."""
    if STATION.collector is not None:
        ray.get(STATION.collector.post.remote(STATION.take()))
