"""What the simulators of one process share: what happened since it was last asked, and the scales in use.

Every process that steps simulators has one `STATION`. In an env runner of its own process, what happened goes to
the collector at the end of each `sample()`; in the driver's process the engine looks here itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.engines.engine import Interrupted, SimulatorFailure
from muster.engines.hanging import interrupt_or_end_on_hang
from muster.engines.journal import Call, UnderWay
from muster.engines.moments import Moments
from muster.engines.worker_signals import outlive_signals
from muster.policies.normalizer import Scale

Array = NDArray[Any]


class EscapeError(BaseException):
    """Carries an error through RLlib, which catches every `Exception` and shows one of its own."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass
class Report:
    """Steps, finished episodes, failures, and the moments of what was seen."""

    steps: int = 0
    episodes: list[tuple[float, int]] = field(default_factory=list)
    failures: list[SimulatorFailure] = field(default_factory=list)
    observations: Moments | None = None
    returns: Moments | None = None

    @staticmethod
    def joined(reports: Sequence[Report]) -> Report:
        """Return several reports as one."""
        total = Report()
        for report in reports:
            total.steps += report.steps
            total.episodes += report.episodes
            total.failures += report.failures
            total.observations = _merged(total.observations, report.observations)
            total.returns = _merged(total.returns, report.returns)
        return total


def _merged(one: Moments | None, other: Moments | None) -> Moments | None:
    return one.merged(other) if one is not None and other is not None else one or other


@dataclass(frozen=True)
class Scales:
    """By what observations and rewards are scaled before RLlib sees them."""

    observations: Scale | None = None
    reward_std: float = 1.0


@dataclass
class Station:
    """The state of one process; its collector is None in the driver's own.

    `under_way` is the call of a simulator that is under way; another thread may look at it.
    """

    scales: Scales = field(default_factory=Scales)
    collector: Any = None
    life: int = 0
    num_simulators: int = 0
    num_calls: int = 0
    under_way: UnderWay | None = None
    failures_in_a_row: dict[int, int] = field(default_factory=dict)
    interrupted: Interrupted = lambda: False
    is_stale: bool = True
    report: Report = field(default_factory=Report)
    seen: list[Array] = field(default_factory=list)
    discounted: list[float] = field(default_factory=list)

    def join(self, collector: Any, worker: int, step_timeout: float | None) -> int:
        """Add a simulator; return its number in this process. An env runner's process looks after its hangs."""
        if collector is not None and self.collector is None:
            import ray

            outlive_signals()
            self.collector = collector
            self.life = ray.get(collector.join.remote(worker, ray.get_runtime_context().current_actor))
            if step_timeout is not None:
                interrupt_or_end_on_hang(step_timeout, lambda: self.under_way)
        self.num_simulators += 1
        return self.num_simulators - 1

    def calls(self, call: Call, number: int) -> None:
        """Note that a simulator is about to be asked something."""
        self.num_calls += 1
        self.under_way = (call.name.lower(), number, self.num_calls)

    def rests(self) -> None:
        """Note that no simulator is asked anything."""
        self.under_way = None

    def refresh(self) -> None:
        """Fetch the scales, once after each report."""
        if self.is_stale and self.collector is not None:
            import ray

            self.scales = ray.get(self.collector.scales.remote())
        self.is_stale = False

    def take(self) -> Report:
        """Return what happened since this was last called."""
        report, self.report = self.report, Report()
        if self.seen:
            report.observations = Moments.of(np.stack(self.seen))
        if self.discounted:
            report.returns = Moments.of(np.array(self.discounted)[:, None])
        self.seen, self.discounted = [], []
        self.is_stale = True
        return report

    def begin(self) -> None:
        """Forget all: a new engine uses this process."""
        self.__dict__.update(vars(Station()))


STATION = Station()
