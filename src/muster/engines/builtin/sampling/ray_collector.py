"""Groups dealt out to workers, which Ray runs; a worker that is lost is replaced."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from muster.engines.builtin.sampling.fragments import Fragment, Weights
from muster.engines.builtin.sampling.groups import GroupSettings
from muster.engines.builtin.sampling.workers import GroupStart, Sampled, UnsavedSimulatorsError, Worker
from muster.engines.failure_inbox import FailureInbox
from muster.engines.waiting import POLL_SECONDS, get, patient
from muster.errors import MusterError, RayLostError, SimulatorError
from muster.stepping.calls import Call
from muster.stepping.failures import (
    MAX_FAILURES_IN_A_ROW,
    SamplingAbandonedError,
    SimulatorFailure,
    Supervision,
    simulator_error,
)
from muster.stepping.journal_reading import NO_TRACE, LastCall, cause_of_death

CLOSE_SECONDS = 5.0
NODE_SECONDS = 5.0
OUT_OF_MEMORY = "out of memory: Ray ended the worker to save the host"
HEADROOM = 1.2
"""How many times as long as the last batch the next may take to sample, and still be there when learning ends."""


@dataclass
class _Place:
    """A worker's place: its groups, and who fills it now."""

    number: int
    groups: list[int]
    worker: Any = None
    node: Any = None
    journals: str = ""
    losses_in_a_row: int = 0
    is_simulator_s_fault: bool = False


class RayCollector:
    """Groups dealt out to workers in turn; fragments are taken from whoever is ready.

    With overlap, groups also sample while the learner learns; a batch is the next so many fragments, as many as
    there are groups, whosever they are. Where sampling takes as long as learning, every group samples all the
    time, with the newest weights when a fragment begins: a slow simulator holds up nobody but itself, and weights
    are about one iteration old. Where it takes less, it begins just in time for the end of learning, with what is
    learned by then. The stored log-probabilities account for the difference.

    The groups of a worker that is lost continue with new episodes. If it was lost in the middle of a simulator's
    call, that is the simulator's failure, and counted so.
    """

    def __init__(
        self,
        settings: GroupSettings,
        starts: Sequence[GroupStart],
        num_workers: int,
        *,
        overlap: bool,
        supervision: Supervision,
    ) -> None:
        import ray

        self._ray = ray
        self._overlap = overlap
        self._supervision = supervision
        self._interrupted = supervision.interrupted
        self._begin_at = 0.0
        self._sample_seconds = 0.0
        self._collected_at: float | None = None
        self._pending: dict[Any, tuple[_Place, int | None]] = {}
        self._fragments: list[tuple[int, Fragment]] = []
        self._settings = settings
        self._inbox = FailureInbox()
        # In a placement group, such as that of a sweep's trial, the workers' CPUs are those reserved there.
        strategy = "SPREAD" if ray.util.get_current_placement_group() is None else None
        cpus = settings.stepping.simulator.cpus or 1
        self._actor_class = ray.remote(num_cpus=cpus, max_restarts=0, scheduling_strategy=strategy)(Worker)
        errors = ray.exceptions
        self._lost = (errors.RayActorError, errors.OutOfMemoryError, errors.ObjectLostError)
        self._next_episodes = [start.first_episodes for start in starts]
        self._places = [_Place(w, list(range(w, len(starts), num_workers))) for w in range(num_workers)]
        for place in self._places:
            self._fill(place, self._actor_class)
        built = [place.worker.build.remote([starts[g] for g in place.groups]) for place in self._places]
        self.num_restarted = 0
        try:
            for place, reference in zip(self._places, built, strict=True):
                self._begin(place, reference)
        except BaseException:
            self.close()
            raise

    def _begin(self, place: _Place, built: Any) -> None:
        """Wait for the groups of a worker."""
        try:
            self.num_restarted += self._result(built)
        except self._lost as error:
            self._rebuild(place, error)
        finally:
            self._report_failures()

    def collect(self, weights: Weights) -> Sampled:
        started = time.perf_counter()
        if self._collected_at is not None:
            self._begin_at = _share_to_begin_at(self._sample_seconds, started - self._collected_at)
        num_groups = len(self._next_episodes)
        self._settings = self._settings.scheduled(weights.scheduled)
        shared = self._put(weights)
        self._submit_all_missing(shared)
        lost = 0
        while len(self._fragments) < num_groups:
            ready, _ = self._ray.wait(list(self._pending), num_returns=1, timeout=POLL_SECONDS)
            self._supervision.require_time()
            if not ready:
                self._report_failures()
                if self._overlap:
                    self._submit_all_missing(shared)
            for reference in ready:
                place, g = self._pending.pop(reference)
                try:
                    result = self._result(reference)
                except self._lost as error:
                    lost += 1
                    self._rescue(place)
                    self._pending[self._replace(place, error)] = (place, None)
                    self._submit_missing(place, shared)
                else:
                    self._take(place, g, result)
                    is_short = len(self._fragments) + len(self._pending) < num_groups
                    if self._overlap and (is_short or self._begin_at == 0):
                        self._submit_missing(place, shared)
        batch, self._fragments = self._fragments[:num_groups], self._fragments[num_groups:]
        fragments = [fragment for _, fragment in sorted(batch, key=lambda pair: pair[0])]
        self._sample_seconds = sum(fragment.seconds for fragment in fragments) / len(self._places)
        self._collected_at = time.perf_counter()
        idle = max(0.0, self._collected_at - started - self._sample_seconds)
        if any(fragment.num_failures for fragment in fragments):
            self._report_failures()
        return Sampled(fragments, list(self._next_episodes), idle, lost)

    def learning(self, share: float, weights: Callable[[], Weights]) -> None:
        if self._overlap and 0 < self._begin_at <= share and len(self._pending) < len(self._next_episodes):
            self._submit_all_missing(self._put(weights()))

    def states(self) -> list[bytes]:
        try:
            results = [self._get(place.worker.states.remote()) for place in self._places]
        except self._lost as error:
            raise UnsavedSimulatorsError(f"a worker was lost ({type(error).__name__})") from None
        except RayLostError:
            raise UnsavedSimulatorsError("Ray was lost") from None
        except SamplingAbandonedError:
            raise UnsavedSimulatorsError("there was no time left to save them") from None
        states: dict[int, bytes] = {}
        for place, result in zip(self._places, results, strict=True):
            if isinstance(result, UnsavedSimulatorsError):
                raise result
            states |= dict(zip(place.groups, result, strict=True))
        return [states[g] for g in sorted(states)]

    def close(self) -> None:
        self._interrupted = patient(self._interrupted, CLOSE_SECONDS)
        with suppress(RayLostError):
            for place, reference in self._closed():
                with suppress(SimulatorError, SamplingAbandonedError):
                    self._take_closed(place, reference)
            with suppress(SimulatorError):
                self._report_failures()
            self._supervision.interrupted()
            for place in self._places:
                self._ray.kill(place.worker)
            self._inbox.close()

    def _take_closed(self, place: _Place, closed: Any) -> None:
        """Take what closing a worker's simulators came to; if it was lost in that, look in which call."""
        try:
            self._result(closed)
        except self._lost as error:
            node, left = self._node(place), place.journals
            self._fill(place, self._replacement(node))
            calls, trace = self._last_calls(place, left)
            self._supervision.report_all(self._deaths(calls, trace, error))

    def _closed(self) -> list[tuple[_Place, Any]]:
        """Let the workers close their simulators; return what is done by then if there is no time to wait."""
        self._supervision.interrupted()
        closing = {place.worker.close.remote(): place for place in self._places}
        deadline = time.monotonic() + CLOSE_SECONDS
        while True:
            closed, left = self._ray.wait(list(closing), num_returns=len(closing), timeout=POLL_SECONDS)
            if not left or self._supervision.interrupted() or time.monotonic() > deadline:
                return [(closing[reference], reference) for reference in closed]

    def _fill(self, place: _Place, actor_class: Any) -> None:
        place.journals = f"{uuid.uuid4().hex}-{place.number}"
        place.worker = actor_class.remote(self._settings, place.journals, self._inbox)
        place.node = place.worker.node.remote()

    def _submit_all_missing(self, weights: Any) -> None:
        for place in self._places:
            self._submit_missing(place, weights)

    def _submit_missing(self, place: _Place, weights: Any) -> None:
        """Ask for a fragment of each group that is not asked already and, without overlap, has not given one."""
        there = {g for whose, g in self._pending.values() if whose is place}
        if not self._overlap:
            there |= {g for g, _ in self._fragments}
        for g in place.groups:
            if g not in there:
                self._pending[place.worker.sample.remote(g, weights)] = (place, g)

    def _take(self, place: _Place, g: int | None, fragment: Any) -> None:
        """Keep what a group has sampled; the reference to groups being built has no group, and brings nothing."""
        if g is None:
            return
        self._fragments.append((g, fragment))
        self._next_episodes[g] = fragment.next_episodes
        if fragment.episodes or not place.is_simulator_s_fault:
            place.losses_in_a_row = 0

    def _rescue(self, place: _Place) -> None:
        """Take the fragments that a lost worker had finished, and expect no more of it."""
        for reference in [r for r, (whose, _) in self._pending.items() if whose is place]:
            _, g = self._pending.pop(reference)
            try:
                self._take(place, g, self._result(reference))
            except self._lost:
                continue

    def _rebuild(self, place: _Place, error: Exception) -> None:
        """Replace a lost worker, as often as it takes, and wait for its groups."""
        try:
            self._result(self._replace(place, error))
        except self._lost as next_error:
            self._rebuild(place, next_error)

    def _replace(self, place: _Place, error: Exception) -> Any:
        """Put another worker in a lost one's place; return the reference to its groups being built."""
        node, left = self._node(place), place.journals
        self._fill(place, self._replacement(node))
        calls, trace = self._last_calls(place, left)
        self._count_loss(place, error, calls, trace)
        starts = []
        episodes = {last.group: last.episodes for last in calls}
        for g in place.groups:
            last = episodes.get(g, self._next_episodes[g])
            self._next_episodes[g] = [episode + 1 for episode in last]
            starts.append(GroupStart(g, self._next_episodes[g]))
        return place.worker.build.remote(starts)

    def _last_calls(self, place: _Place, journals: str) -> tuple[list[LastCall], str]:
        """Ask the new worker what the lost one left on its host.

        If that host is lost too, so is what was left there, and another worker takes the place elsewhere.
        """
        try:
            calls: tuple[list[LastCall], str] = self._get(place.worker.last_calls.remote(journals))
        except self._lost:
            self._fill(place, self._replacement(None))
            return [], ""
        return calls

    def _node(self, place: _Place) -> str | None:
        try:
            return str(self._ray.get(place.node, timeout=NODE_SECONDS))
        except (*self._lost, self._ray.exceptions.GetTimeoutError):
            return None

    def _replacement(self, node: str | None) -> Any:
        """Return the class of a worker on a lost one's host, if it is still there, for its journals.

        Asks for no CPU: that of a lost host is gone, and waiting for it would last for ever.
        """
        if node is None:
            return self._actor_class.options(num_cpus=0)
        strategy = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=True)
        return self._actor_class.options(num_cpus=0, scheduling_strategy=strategy)

    def _count_loss(self, place: _Place, error: Exception, calls: list[LastCall], trace: str) -> None:
        """Report the calls that the lost worker died in; stop if workers are lost again and again here."""
        failures = self._deaths(calls, trace, error)
        self._supervision.report_all([*self._inbox.take(), *failures])
        place.is_simulator_s_fault = bool(failures)
        place.losses_in_a_row = 1 if any(last.finished for last in calls) else place.losses_in_a_row + 1
        if place.losses_in_a_row >= MAX_FAILURES_IN_A_ROW:
            what = f"a worker and those that replaced it died, {place.losses_in_a_row} in a row"
            if failures:
                raise simulator_error(f"{what}: {failures[-1]}", failures[-1])
            raise SimulatorError(f"{what}: {error}")

    def _deaths(self, calls: list[LastCall], trace: str, error: Exception) -> list[SimulatorFailure]:
        """Describe the calls in which a worker has died."""
        cause = OUT_OF_MEMORY if isinstance(error, self._ray.exceptions.OutOfMemoryError) else NO_TRACE
        return [
            last.failure(cause_of_death(last.call, trace, cause), trace)
            for last in calls
            if last.call is not Call.NONE
        ]

    def _report_failures(self) -> None:
        # Without its store of objects, Ray would end this process.
        self._supervision.interrupted()
        self._supervision.report_all(self._inbox.take())

    def _result(self, reference: Any) -> Any:
        """Fetch what an actor returned; raise what it returned as an error, or the simulator's own."""
        try:
            value = self._get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise SimulatorError(f"a worker failed: {error.cause!r}\n\n{error}") from None
        if isinstance(value, MusterError):
            raise value
        return value

    def _put(self, weights: Weights) -> Any:
        # Without its store of objects, Ray would end this process.
        self._supervision.require_time()
        return self._ray.put(weights)

    def _get(self, reference: Any) -> Any:
        return get(reference, self._interrupted)


def _share_to_begin_at(sample_seconds: float, learn_seconds: float) -> float:
    """Return after which share of the learning to begin the next batch, to have it in time; 0: at once."""
    if HEADROOM * sample_seconds >= learn_seconds:
        return 0.0
    return 1 - HEADROOM * sample_seconds / learn_seconds
