"""One rank of a launch: who and where it is, what it tells the others, what it holds of its host."""

from __future__ import annotations

import os
import platform
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from muster.clusters.allocation.machine import is_this_machine
from muster.clusters.allocation.model import Allocation
from muster.clusters.launching.gathering import gather
from muster.clusters.launching.meeting import Meeting, RankCard, wait_for
from muster.clusters.launching.options import LaunchOptions
from muster.clusters.launching.plan import HostPlan, plan_host
from muster.clusters.launching.ports import PortBlock, take_ports
from muster.clusters.launching.timeline import Timeline
from muster.clusters.temporary import temporary_folder

RAY = "ray"
POLL_SECONDS = 0.05
LEAVE_SECONDS = 6.0


class Rank:
    """What a rank knows of itself and its launch, whichever part it has in it."""

    def __init__(self, allocation: Allocation, options: LaunchOptions) -> None:
        """Find the other ranks.

        Raises:
            ClusterError: if they cannot meet.
        """
        ranks = allocation.ranks
        self.allocation = allocation
        self.options = options
        self.number = ranks.rank.value if ranks else 0
        self.num_ranks = _expected_ranks(allocation, options)
        self.host = socket.gethostname()
        self.is_head = self._is_head()
        gathering = gather(allocation, options, self.is_head)
        self.launch_id = gathering.launch_id
        self.meeting_folders = [gathering.folder] if gathering.folder else []
        """To be removed when this launch ends; gone, it tells the other hosts that the head's rank is."""
        self.meeting = Meeting(gathering.board)
        self.records = options.records / self.launch_id
        self.records.mkdir(parents=True, exist_ok=True)
        self.timeline = Timeline(self.records, self.host, on_screen=self.is_head)

    def join(self) -> None:
        """Come to the meeting."""
        self.meeting.join(self._card())
        self.timeline.add("rank here", rank=self.number)

    def plan_this_host(self) -> HostPlan:
        """Wait for the other ranks of this host, whose masks add to its share."""
        ranks = self.allocation.ranks
        expected = ranks.num_local_ranks.value if ranks and ranks.num_local_ranks else 1

        def look() -> list[RankCard] | None:
            cards = self._local_cards()
            return cards if len(cards) >= expected else None

        cards = wait_for(look, self.options.timeout) or self._local_cards()
        return plan_host(self.host, cards, self.options)

    def leads_here(self) -> bool:
        """Whether this rank is the one to start Ray on its host: the first that its launcher put there."""
        ranks = self.allocation.ranks
        if ranks and ranks.local_rank is not None:
            return ranks.local_rank.value == 0
        wait_for(lambda: True if len(self.meeting.cards()) >= self.num_ranks else None, self.options.timeout)
        return self.number == min(card.rank for card in self._local_cards())

    def log(self, host: str | None = None) -> Path:
        """Return the log of Ray on a host."""
        folder = self.records / "logs"
        folder.mkdir(exist_ok=True)
        return folder / f"{host or self.host}.log"

    def _card(self) -> RankCard:
        allocation, granted = self.allocation, self.allocation.granted
        machine, host = allocation.machine, allocation.this_host
        ranks = allocation.ranks
        return RankCard(
            rank=self.number,
            host=self.host,
            local_rank=ranks.local_rank.value if ranks and ranks.local_rank else None,
            pid=os.getpid(),
            affinity=sorted(machine.affinity or ()),
            scheduler_cpus=granted.cpus.value if granted and granted.cpus else None,
            cgroup_cpus=machine.cgroup_cpus.value if machine.cgroup_cpus else None,
            gpus=host.gpus.value if host and host.gpus else 0,
            memory=host.memory.value if host and host.memory else machine.memory,
            python=platform.python_version(),
            ray=version("ray"),
            muster=version("muster-rl"),
            time=time.time(),
        )

    def _local_cards(self) -> list[RankCard]:
        return [card for card in self.meeting.cards().values() if card.host == self.host]

    def _is_head(self) -> bool:
        """Whether this rank leads: the first one, or the first on the host that is to be the head's."""
        options, ranks = self.options, self.allocation.ranks
        if options.head is None and options.head_address is None:
            return self.number == 0
        if ranks and ranks.local_rank and ranks.local_rank.value != 0:
            return False
        if options.head is not None:
            return options.head in (self.host, self.host.partition(".")[0])
        return options.head_address is not None and is_this_machine(options.head_address[0])


def _expected_ranks(allocation: Allocation, options: LaunchOptions) -> int:
    if options.nodes is not None:
        return options.nodes
    if allocation.ranks and allocation.ranks.num_ranks:
        return allocation.ranks.num_ranks.value
    return len(allocation.hosts.value)


@contextmanager
def host_resources(allocation: Allocation, options: LaunchOptions) -> Iterator[tuple[Path, PortBlock]]:
    """Hold a temporary folder on this host's own disk, with a short path, and a block of ports."""
    ports = take_ports(*options.port_range) if options.port_range else take_ports()
    try:
        with temporary_folder(allocation.scratch.value) as folder:
            yield folder, ports
    finally:
        ports.release()


def write_token(path: Path, token: str) -> Path:
    """Write the token for our own eyes, from its first moment on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token)
    return path


def widen_affinity(plan: HostPlan) -> None:
    """Let Ray run on all CPUs of the host's share, not only on those that the launcher pinned this rank to."""
    if hasattr(os, "sched_setaffinity") and plan.cpu_ids:
        os.sched_setaffinity(0, plan.cpu_ids)
