"""Who steps the groups: this process, or Ray actors that the groups are dealt out to."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from muster.engines.builtin.groups import EnvGroup, Fragment, GroupSettings, Weights
from muster.engines.builtin.threads import limit_threads
from muster.engines.engine import MAX_LOSSES_IN_A_ROW, SamplingAbandonedError
from muster.errors import MusterError, SimulatorError

POLL_SECONDS = 0.2
CLOSE_SECONDS = 5.0


class UnsavedSimulatorsError(Exception):
    """The simulators cannot be saved; the message says why."""


@dataclass(frozen=True)
class GroupStart:
    """How a group begins: from a saved state, or else with new episodes of given numbers."""

    index: int
    first_episodes: list[int]
    state: bytes | None = None

    def build(self, settings: GroupSettings) -> tuple[EnvGroup, bool]:
        """Build the group and its simulators; also return whether new episodes begin in spite of a saved state.

        They do if the state no longer unpickles, since the simulator's code has changed.
        """
        group = EnvGroup(settings, self.index, self.first_episodes)
        if self.state is not None:
            try:
                group.restore(self.state)
                return group, False
            except Exception:
                group = EnvGroup(settings, self.index, self.first_episodes)
        group.start()
        return group, self.state is not None


@dataclass(frozen=True)
class Sampled:
    """The fragments of all groups in group order, and what it took to get them."""

    fragments: list[Fragment]
    idle_seconds: float = 0.0
    workers_lost: int = 0


class Collector(Protocol):
    """Samples a fragment from every group."""

    num_restarted: int
    """How many groups began new episodes in spite of a saved state."""

    def collect(self, weights: Weights, interrupted: Callable[[], bool]) -> Sampled:
        """Return one fragment per group, in group order.

        Raises:
            SimulatorError: when the simulator fails again and again.
            SamplingAbandonedError: when `interrupted` says so.
        """

    def states(self) -> list[bytes]:
        """Return the state of every group, in group order.

        Raises:
            UnsavedSimulatorsError: with the reason.
        """

    def close(self) -> None:
        """End what was started."""


class LocalCollector:
    """All groups in this process, one after another: no Ray, and a traceback that leads to the simulator."""

    def __init__(self, settings: GroupSettings, starts: Sequence[GroupStart]) -> None:
        built = [start.build(settings) for start in starts]
        self._groups = [group for group, _ in built]
        self.num_restarted = sum(restarted for _, restarted in built)

    def collect(self, weights: Weights, interrupted: Callable[[], bool]) -> Sampled:
        return Sampled([group.sample(weights, interrupted) for group in self._groups])

    def states(self) -> list[bytes]:
        return _states(self._groups)

    def close(self) -> None:
        for group in self._groups:
            group.close()


class Worker:
    """A Ray actor that holds groups; imports neither torch nor RLlib.

    Errors that muster explains are returned as values, since Ray would wrap them in its own.
    """

    def __init__(self, settings: GroupSettings) -> None:
        limit_threads(1)
        self._settings = settings
        self._groups: dict[int, EnvGroup] = {}

    def build(self, starts: Sequence[GroupStart]) -> int | MusterError:
        """Build groups; return how many began new episodes in spite of a saved state."""
        num_restarted = 0
        try:
            for start in starts:
                self._groups[start.index], restarted = start.build(self._settings)
                num_restarted += restarted
        except MusterError as error:
            return error
        return num_restarted

    def sample(self, index: int, weights: Weights) -> Fragment | MusterError:
        """Sample a fragment from one of the groups."""
        try:
            return self._groups[index].sample(weights)
        except MusterError as error:
            return error

    def states(self) -> list[bytes] | UnsavedSimulatorsError:
        """Return the states of the groups here, in the order they were built."""
        try:
            return _states(list(self._groups.values()))
        except UnsavedSimulatorsError as error:
            return error

    def close(self) -> None:
        """Close the simulators."""
        for group in self._groups.values():
            group.close()


class RayCollector:
    """Groups dealt out to Ray actors in turn; fragments are taken from whoever is ready.

    A worker that is lost is replaced; its groups go on with new episodes.
    """

    def __init__(self, settings: GroupSettings, starts: Sequence[GroupStart], num_workers: int) -> None:
        import ray

        self._ray = ray
        self._settings = settings
        # In a placement group, such as that of a sweep's trial, the workers' CPUs are those reserved there.
        strategy = "SPREAD" if ray.util.get_current_placement_group() is None else None
        self._actor_class = ray.remote(num_cpus=1, max_restarts=0, scheduling_strategy=strategy)(Worker)
        self._dealt = [list(range(w, len(starts), num_workers)) for w in range(num_workers)]
        self._next_episodes = [start.first_episodes for start in starts]
        self._losses_in_a_row = [0] * num_workers
        self._lost = (ray.exceptions.RayActorError, ray.exceptions.OutOfMemoryError)
        self._workers = [self._actor_class.remote(settings) for _ in range(num_workers)]
        built = [
            worker.build.remote([starts[g] for g in groups])
            for worker, groups in zip(self._workers, self._dealt, strict=True)
        ]
        self.num_restarted = 0
        for w, reference in enumerate(built):
            try:
                self.num_restarted += self._result(reference)
            except self._lost as error:
                self._replace(w, error)

    def collect(self, weights: Weights, interrupted: Callable[[], bool]) -> Sampled:
        started = time.perf_counter()
        shared = self._ray.put(weights)
        fragments: dict[int, Fragment] = {}
        pending: dict[Any, int] = {}
        for w in range(len(self._workers)):
            pending |= self._submit(w, self._dealt[w], shared)
        lost = 0
        while pending:
            ready, _ = self._ray.wait(list(pending), num_returns=1, timeout=POLL_SECONDS)
            if interrupted():
                raise SamplingAbandonedError
            for reference in ready:
                g = pending.pop(reference)
                try:
                    fragments[g] = self._result(reference)
                except self._lost as error:
                    lost += 1
                    w = g % len(self._workers)
                    pending = {r: other for r, other in pending.items() if other not in self._dealt[w]}
                    self._replace(w, error)
                    unsampled = [g for g in self._dealt[w] if g not in fragments]
                    pending |= self._submit(w, unsampled, shared)
                else:
                    self._losses_in_a_row[g % len(self._workers)] = 0
                    self._next_episodes[g] = fragments[g].next_episodes
        busy = sum(fragment.seconds for fragment in fragments.values()) / len(self._workers)
        idle = max(0.0, time.perf_counter() - started - busy)
        return Sampled([fragments[g] for g in sorted(fragments)], idle, lost)

    def states(self) -> list[bytes]:
        try:
            results = self._ray.get([worker.states.remote() for worker in self._workers])
        except self._lost as error:
            raise UnsavedSimulatorsError(f"a worker was lost ({type(error).__name__})") from None
        states: dict[int, bytes] = {}
        for groups, result in zip(self._dealt, results, strict=True):
            if isinstance(result, UnsavedSimulatorsError):
                raise result
            states |= dict(zip(groups, result, strict=True))
        return [states[g] for g in sorted(states)]

    def close(self) -> None:
        closing = [worker.close.remote() for worker in self._workers]
        self._ray.wait(closing, num_returns=len(closing), timeout=CLOSE_SECONDS)
        for worker in self._workers:
            self._ray.kill(worker)

    def _submit(self, w: int, groups: Sequence[int], weights: Any) -> dict[Any, int]:
        return {self._workers[w].sample.remote(g, weights): g for g in groups}

    def _replace(self, w: int, error: Exception) -> None:
        self._losses_in_a_row[w] += 1
        if self._losses_in_a_row[w] >= MAX_LOSSES_IN_A_ROW:
            raise SimulatorError(
                f"a worker and those that replaced it died, {MAX_LOSSES_IN_A_ROW} in a row: {error}\n"
                "    does the simulator end its process, or run out of memory? Try --workers 0"
            )
        starts = []
        for g in self._dealt[w]:
            self._next_episodes[g] = [episode + 1 for episode in self._next_episodes[g]]
            starts.append(GroupStart(g, self._next_episodes[g]))
        # Asks for no CPU: that of a lost host is gone, and waiting for it would last for ever.
        self._workers[w] = self._actor_class.options(num_cpus=0).remote(self._settings)
        try:
            self._result(self._workers[w].build.remote(starts))
        except self._lost as next_error:
            self._replace(w, next_error)

    def _result(self, reference: Any) -> Any:
        """Fetch what an actor returned; raise what it returned as an error, or the simulator's own."""
        try:
            value = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise SimulatorError(f"a worker failed: {error.cause!r}\n\n{error}") from None
        if isinstance(value, MusterError):
            raise value
        return value


def _states(groups: Sequence[EnvGroup]) -> list[bytes]:
    try:
        return [group.state() for group in groups]
    except Exception as error:
        raise UnsavedSimulatorsError(f"the simulator does not pickle ({type(error).__name__}: {error})") from None
