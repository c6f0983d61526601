"""Who steps the groups: this process, or a worker of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from muster.engines.builtin.groups import EnvGroup, Fragment, GroupSettings, Weights
from muster.engines.builtin.mailbox import Mailbox
from muster.engines.builtin.threads import limit_threads
from muster.engines.engine import Interrupted, SimulatorFailure, Tell
from muster.engines.hanging import end_process_on_hang, interrupted_on_hang, tell_of_faults
from muster.engines.journal import UnderWay, journal_folder
from muster.engines.journal_reading import LastWords, read_last_words, read_trace
from muster.engines.worker_signals import outlive_signals
from muster.errors import MusterError
from muster.simulators.building import find_simulator


class UnsavedSimulatorsError(Exception):
    """The simulators cannot be saved; the message says why."""


@dataclass(frozen=True)
class GroupStart:
    """How a group begins: from a saved state, or else with new episodes of given numbers."""

    index: int
    first_episodes: list[int]
    state: bytes | None = None

    def create(self, settings: GroupSettings, journals: Path | None) -> EnvGroup:
        """Make the group, without its simulators."""
        return EnvGroup(settings, self.index, self.first_episodes, journals)

    def begin(self, group: EnvGroup) -> bool:
        """Build the group's simulators; return whether new episodes begin in spite of a saved state.

        They do if the state no longer unpickles, since the simulator's code has changed.
        """
        if self.state is not None:
            try:
                group.restore(self.state)
                return False
            except Exception:
                group.start()
                return True
        group.start()
        return False


@dataclass(frozen=True)
class Sampled:
    """The fragments of a batch, the episodes that come next in each group, and what it took to get them.

    `failures` are those that no fragment tells of, since a process ended with them.
    """

    fragments: list[Fragment]
    next_episodes: list[list[int]]
    idle_seconds: float = 0.0
    workers_lost: int = 0
    failures: list[SimulatorFailure] = field(default_factory=list)


class Collector(Protocol):
    """Samples a fragment from every group."""

    num_restarted: int
    """How many groups began new episodes in spite of a saved state."""

    def collect(self, weights: Weights, interrupted: Interrupted, tell: Tell) -> Sampled:
        """Return as many fragments as there are groups, in group order; tell of failures as they happen.

        Raises:
            SimulatorError: when the simulator fails again and again.
            SamplingAbandonedError: when `interrupted` says so.
        """

    def learning(self, share: float, weights: Callable[[], Weights]) -> None:
        """Hear that a share of the learning is done; the next batch may be begun with what is learned so far."""

    def states(self) -> list[bytes]:
        """Return the state of every group, in group order.

        Raises:
            UnsavedSimulatorsError: with the reason.
        """

    def close(self) -> list[SimulatorFailure]:
        """End what was started; return what failed in that."""


class LocalCollector:
    """All groups in this process, one after another: no Ray, and a traceback that leads to the simulator."""

    def __init__(self, settings: GroupSettings, starts: Sequence[GroupStart], journals: Path | None) -> None:
        tell_of_faults()
        journals = journals and journal_folder(journals)
        self._timeout, self._journals = settings.step_timeout, journals
        self._groups = [start.create(settings, journals) for start in starts]
        with self._hangs_interrupted():
            self.num_restarted = sum(start.begin(group) for start, group in zip(starts, self._groups, strict=True))

    def collect(self, weights: Weights, interrupted: Interrupted, tell: Tell) -> Sampled:
        for group in self._groups:
            group.tell_of_failures(tell)
        with self._hangs_interrupted():
            fragments = [group.sample(weights, interrupted) for group in self._groups]
        return Sampled(fragments, [fragment.next_episodes for fragment in fragments])

    def learning(self, share: float, weights: Callable[[], Weights]) -> None:
        """Sample nothing: this process is the one that learns."""

    def states(self) -> list[bytes]:
        return _states(self._groups)

    def close(self) -> list[SimulatorFailure]:
        with self._hangs_interrupted():
            failures = [failure for group in self._groups for failure in group.close()]
        if self._journals is not None:
            shutil.rmtree(self._journals, ignore_errors=True)
        return failures

    def _hangs_interrupted(self) -> AbstractContextManager[None]:
        return interrupted_on_hang(self._timeout, lambda: _under_way(self._groups))


class Worker:
    """A Ray actor that holds groups; imports neither torch nor RLlib.

    Errors that muster explains are returned as values, since Ray would wrap them in its own.
    """

    def __init__(self, settings: GroupSettings, journals: str, mailbox: Mailbox) -> None:
        limit_threads(1)
        outlive_signals()
        self._mailbox = mailbox
        self._settings = settings
        self._groups: dict[int, EnvGroup] = {}
        self._broken: MusterError | None = None
        self._journals = journal_folder(session_folder() / journals)
        # Importing may take long and is no hang; what is wrong with it will be told when simulators are built.
        with suppress(Exception):
            find_simulator(settings.simulator.id, settings.simulator.paths)
        end_process_on_hang(self._journals, settings.step_timeout, lambda: _under_way(list(self._groups.values())))

    def node(self) -> str:
        """Return the Ray node that this worker is on."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def last_words(self, journals: str) -> tuple[list[LastWords], str]:
        """Return what a worker left behind that had ended on this host, and the stack it ended with."""
        folder = session_folder() / journals
        words = read_last_words(folder), read_trace(folder)
        shutil.rmtree(folder, ignore_errors=True)
        return words

    def build(self, starts: Sequence[GroupStart]) -> int | MusterError:
        """Build groups; return how many began new episodes in spite of a saved state."""
        num_restarted = 0
        try:
            for start in starts:
                group = self._groups[start.index] = start.create(self._settings, self._journals)
                group.tell_of_failures(self._mailbox.put)
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
            return self._groups[index].sample(weights)
        except MusterError as error:
            return error

    def states(self) -> list[bytes] | UnsavedSimulatorsError:
        """Return the states of the groups here, in the order they were built."""
        try:
            return _states(list(self._groups.values()))
        except UnsavedSimulatorsError as error:
            return error

    def close(self) -> list[SimulatorFailure]:
        """Close the simulators; return what failed in that."""
        failures = [failure for group in self._groups.values() for failure in group.close()]
        if self._journals is not None:
            shutil.rmtree(self._journals, ignore_errors=True)
        return failures


def session_folder() -> Path:
    """Return the folder on this host that ends with the Ray that this worker belongs to."""
    import ray

    return Path(ray._private.worker._global_node.get_session_dir_path()) / "muster"


def _under_way(groups: Sequence[EnvGroup]) -> UnderWay | None:
    return next((call for group in groups if (call := group.under_way()) is not None), None)


def _states(groups: Sequence[EnvGroup]) -> list[bytes]:
    try:
        return [group.state() for group in groups]
    except Exception as error:
        raise UnsavedSimulatorsError(f"the simulator does not pickle ({type(error).__name__}: {error})") from None
