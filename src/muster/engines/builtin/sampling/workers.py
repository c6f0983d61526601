"""Who steps the groups: this process, or a worker of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from muster.engines.builtin.sampling.fragments import Fragment, Weights
from muster.engines.builtin.sampling.groups import EnvGroup, GroupSettings
from muster.engines.failure_inbox import FailureInbox
from muster.engines.session import session_folder
from muster.errors import MusterError
from muster.simulators.lookup import find_simulator
from muster.stepping.calls import UnderWay
from muster.stepping.children import look_after_children
from muster.stepping.failures import CallInterrupt, Supervision
from muster.stepping.hang_watch import Hung, end_process, end_process_on_hang, print_faults
from muster.stepping.here import called_here
from muster.stepping.journal import journal_folder
from muster.stepping.journal_reading import LastCall, read_last_calls, read_trace
from muster.stepping.process_state import ProcessState, alarm_kept
from muster.stepping.threads import limit_threads
from muster.stepping.worker_signals import outlive_signals


class UnsavedSimulatorsError(Exception):
    """The simulators cannot be saved; the message says why."""


@dataclass(frozen=True)
class GroupStart:
    """How a group begins: from a saved state, or else with new episodes of given numbers."""

    index: int
    first_episodes: list[int]
    state: bytes | None = None

    def create(self, settings: GroupSettings, supervision: Supervision, journals: Path | None) -> EnvGroup:
        """Make the group, without its simulators."""
        return EnvGroup(settings, self.index, self.first_episodes, supervision, journals)

    def begin(self, group: EnvGroup) -> bool:
        """Build the group's simulators; return whether new episodes begin in spite of a saved state.

        They do if the state no longer unpickles, since the simulator's code has changed.
        """
        if self.state is not None:
            try:
                group.restore(self.state)
                return False
            except CallInterrupt:
                raise
            except BaseException:
                group.start()
                return True
        group.start()
        return False


@dataclass(frozen=True)
class Sampled:
    """The fragments of a batch, the episodes that come next in each group, and what it took to get them."""

    fragments: list[Fragment]
    next_episodes: list[list[int]]
    idle_seconds: float = 0.0
    workers_lost: int = 0


class Collector(Protocol):
    """Samples a fragment from every group."""

    num_restarted: int
    """How many groups began new episodes in spite of a saved state."""

    def collect(self, weights: Weights) -> Sampled:
        """Return as many fragments as there are groups, in group order; failures are reported as they happen.

        Raises:
            SimulatorError: when the simulator fails again and again.
            SamplingAbandonedError: when there is no time left.
        """

    def learning(self, share: float, weights: Callable[[], Weights]) -> None:
        """Hear that a share of the learning is done; the next batch may be begun with what is learned so far."""

    def states(self) -> list[bytes]:
        """Return the state of every group, in group order.

        Raises:
            UnsavedSimulatorsError: with the reason.
        """

    def close(self) -> None:
        """End what was started."""


class LocalCollector:
    """All groups in this process, one after another: no Ray, and a traceback that leads to the simulator."""

    def __init__(
        self,
        settings: GroupSettings,
        starts: Sequence[GroupStart],
        journals: Path | None,
        supervision: Supervision,
        hung: Hung = end_process,
    ) -> None:
        print_faults()
        journals = journals and journal_folder(journals)
        self._timeout, self._journals, self._hung = settings.stepping.step_timeout, journals, hung
        self._process_state = ProcessState()
        self._groups = [start.create(settings, supervision, journals) for start in starts]
        try:
            with self._called_here():
                begun = zip(starts, self._groups, strict=True)
                self.num_restarted = sum(start.begin(group) for start, group in begun)
        except BaseException:
            self.close()
            raise

    def collect(self, weights: Weights) -> Sampled:
        with self._called_here():
            fragments = [group.sample(weights) for group in self._groups]
        return Sampled(fragments, [fragment.next_episodes for fragment in fragments])

    def learning(self, share: float, weights: Callable[[], Weights]) -> None:
        """Sample nothing: this process is the one that learns."""

    def states(self) -> list[bytes]:
        with self._called_here():
            return _states(self._groups)

    def close(self) -> None:
        with self._called_here():
            for group in self._groups:
                group.close()
        if self._journals is not None:
            shutil.rmtree(self._journals, ignore_errors=True)

    def _called_here(self) -> AbstractContextManager[None]:
        return called_here(
            self._timeout,
            watched=lambda: _under_way(self._groups),
            state=self._process_state,
            hung=self._hung,
        )


class Worker:
    """A Ray actor that holds groups; imports neither torch nor RLlib.

    Errors that muster explains are returned as values, since Ray would wrap them in its own.
    """

    def __init__(self, settings: GroupSettings, journals: str, inbox: FailureInbox) -> None:
        limit_threads(1)
        outlive_signals()
        look_after_children()
        self._supervision = Supervision(inbox.put)
        self._settings = settings
        self._groups: dict[int, EnvGroup] = {}
        self._broken: MusterError | None = None
        self._journals = journal_folder(session_folder() / journals)
        simulator = settings.stepping.simulator
        # Importing may take long and is no hang; what is wrong with it is reported when simulators are built.
        with suppress(Exception):
            find_simulator(simulator.id, simulator.paths, simulator.imports)
        end_process_on_hang(self._journals, settings.stepping.step_timeout, self._under_way)

    def _under_way(self) -> UnderWay | None:
        return _under_way(list(self._groups.values()))

    def node(self) -> str:
        """Return the Ray node that this worker is on."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def last_calls(self, journals: str) -> tuple[list[LastCall], str]:
        """Return what a worker left behind that had ended on this host, and the stack it ended with."""
        folder = session_folder() / journals
        left = read_last_calls(folder), read_trace(folder)
        shutil.rmtree(folder, ignore_errors=True)
        return left

    def build(self, starts: Sequence[GroupStart]) -> int | MusterError:
        """Build groups; return how many began new episodes in spite of a saved state."""
        num_restarted = 0
        try:
            with alarm_kept():
                for start in starts:
                    group = start.create(self._settings, self._supervision, self._journals)
                    self._groups[start.index] = group
                    num_restarted += start.begin(group)
        except MusterError as error:
            self._broken = error
            return error
        return num_restarted

    def sample(self, index: int, weights: Weights) -> Fragment | MusterError:
        """Sample a fragment from one of the groups."""
        if self._broken is not None:
            return self._broken
        try:
            with alarm_kept():
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
        if self._journals is not None:
            shutil.rmtree(self._journals, ignore_errors=True)


def _under_way(groups: Sequence[EnvGroup]) -> UnderWay | None:
    return next((call for group in groups if (call := group.under_way()) is not None), None)


def _states(groups: Sequence[EnvGroup]) -> list[bytes]:
    try:
        return [group.state() for group in groups]
    except CallInterrupt:
        raise
    except BaseException as error:
        raise UnsavedSimulatorsError(f"the simulator does not pickle ({type(error).__name__}: {error})") from None
