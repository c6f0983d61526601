"""What the simulators of one process share: what happened since it was last asked, and what is in force.

Every process that steps simulators has one `PROCESS`. In an env runner of its own process, what happened goes to
the report actor at the end of each `sample()`; in the driver's process the engine looks here itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.engines.failure_inbox import FailureInbox
from muster.engines.moments import Moments
from muster.engines.session import session_folder
from muster.policies.scale import Scale
from muster.stepping.calls import Call
from muster.stepping.children import look_after_children
from muster.stepping.failures import Supervision
from muster.stepping.hang_watch import interrupt_or_end_on_hang
from muster.stepping.info_metrics import Episode
from muster.stepping.journal import journal_folder
from muster.stepping.journal_reading import NO_TRACE, cause_of_death, read_last_calls, read_trace
from muster.stepping.live import call_under_way
from muster.stepping.worker_signals import outlive_signals

Array = NDArray[Any]


class EscapeError(BaseException):
    """Carries an error through RLlib, which catches every `Exception` and shows one of its own."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass
class Sample:
    """Steps, finished episodes, and the moments of what was seen."""

    steps: int = 0
    episodes: list[Episode] = field(default_factory=list)
    observations: Moments | None = None
    returns: Moments | None = None

    @staticmethod
    def joined(samples: Sequence[Sample]) -> Sample:
        """Return several samples as one."""
        total = Sample()
        for sample in samples:
            total.steps += sample.steps
            total.episodes += sample.episodes
            total.observations = _merged(total.observations, sample.observations)
            total.returns = _merged(total.returns, sample.returns)
        return total


def _merged(one: Moments | None, other: Moments | None) -> Moments | None:
    return one.merged(other) if one is not None and other is not None else one or other


@dataclass(frozen=True)
class InForce:
    """What holds for an iteration: the scales of observations and rewards, and the scheduled values."""

    observations: Scale | None = None
    reward_std: float = 1.0
    scheduled: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Link:
    """What connects an env runner with the engine: the report actor, and the inbox for failures."""

    reports: Any
    inbox: FailureInbox
    name: str
    """Distinguishes the journals of one run from those of another on the same Ray."""


@dataclass
class ProcessState:
    """The state of one process; it has no link in the driver's own."""

    supervision: Supervision = field(default_factory=lambda: Supervision(lambda _: None))
    journals: Path | None = None
    in_force: InForce = field(default_factory=InForce)
    link: Link | None = None
    life: int = 0
    num_simulators: int = 0
    failures_in_a_row: dict[int, int] = field(default_factory=dict)
    is_stale: bool = True
    is_taken: bool = False
    """Whether an engine trains in this process."""
    sample: Sample = field(default_factory=Sample)
    seen: list[Array] = field(default_factory=list)
    discounted: list[float] = field(default_factory=list)

    def join(self, link: Link | None, worker: int, num_envs: int, step_timeout: float | None) -> int:
        """Add a simulator; return its number in this process. An env runner's process looks after its hangs."""
        if link is not None and self.link is None:
            self._begin_as_runner(link, worker, num_envs, step_timeout)
        self.num_simulators += 1
        return self.num_simulators - 1

    def _begin_as_runner(self, link: Link, worker: int, num_envs: int, step_timeout: float | None) -> None:
        import ray

        outlive_signals()
        look_after_children()
        self.link = link
        self.supervision = Supervision(link.inbox.put)
        self.life = ray.get(link.reports.join.remote(worker, ray.get_runtime_context().current_actor))
        folders = [session_folder() / f"{link.name}-{worker}-{life}" for life in (self.life - 1, self.life)]
        self._report_death(folders[0], worker, num_envs)
        self.journals = journal_folder(folders[1])
        interrupt_or_end_on_hang(self.journals, step_timeout, call_under_way)

    def _report_death(self, folder: Path, worker: int, num_envs: int) -> None:
        """Report the call in which the env runner before this one ended, if it ended in one, and on this host."""
        trace = read_trace(folder)
        for last in read_last_calls(folder):
            if last.call is not Call.NONE:
                failure = last.failure(cause_of_death(last.call, trace, NO_TRACE), trace)
                index = last.group
                self.supervision.report(replace(failure, group=worker, env=index % num_envs, index=index))
        shutil.rmtree(folder, ignore_errors=True)

    def refresh(self) -> None:
        """Fetch what is in force, once after each sample."""
        if self.is_stale and self.link is not None:
            import ray

            self.in_force = ray.get(self.link.reports.in_force.remote())
        self.is_stale = False

    def take(self) -> Sample:
        """Return what happened since this was last called."""
        sample, self.sample = self.sample, Sample()
        if self.seen:
            sample.observations = Moments.of(np.stack(self.seen))
        if self.discounted:
            sample.returns = Moments.of(np.array(self.discounted)[:, None])
        self.seen, self.discounted = [], []
        self.is_stale = True
        return sample

    def begin(self) -> None:
        """Forget all: a new engine uses this process."""
        self.__dict__.update(vars(ProcessState()))


PROCESS = ProcessState()
