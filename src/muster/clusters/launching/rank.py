"""One rank of a launch: who and where it is, and what it tells the others."""

from __future__ import annotations

import os
import platform
import socket
from importlib.metadata import version
from pathlib import Path

from muster.clusters.allocation.machine import gpu_mask, is_this_machine
from muster.clusters.allocation.model import Allocation
from muster.clusters.launching.addresses import own_address
from muster.clusters.launching.launch_options import LaunchOptions
from muster.clusters.launching.local_ranks import RankCard
from muster.clusters.launching.plan import HostCard, num_local_ranks
from muster.clusters.launching.ray_node import LOOPBACK
from muster.clusters.launching.rendezvous import Rendezvous
from muster.clusters.launching.signals import Signals
from muster.clusters.launching.timeline import Timeline

LEAVE_SECONDS = 6.0


class Rank:
    """What a rank knows of itself and its launch, whichever part it has in it."""

    def __init__(self, allocation: Allocation, options: LaunchOptions, signals: Signals) -> None:
        ranks = allocation.ranks
        self.allocation = allocation
        self.options = options
        self.signals = signals
        self.number = ranks.rank.value if ranks else 0
        self.num_ranks = _expected_ranks(allocation, options)
        self.host = socket.gethostname()

    @property
    def local_rank(self) -> int | None:
        """Its place among the ranks of its host, where the launcher tells."""
        ranks = self.allocation.ranks
        if ranks is None:
            return 0
        return ranks.local_rank.value if ranks.local_rank else None

    @property
    def allocated_as(self) -> str:
        """The name of this host in the allocation, which may be spelled differently."""
        own = self.allocation.this_host
        return own.name if own else self.host

    def may_be_head(self) -> bool:
        """Whether this rank leads the launch: the first one, or the first on the host that is to be the head's.

        Where a host is named and nobody tells which of its ranks is the first, the first to come is it.
        """
        options = self.options
        if options.head is None and options.head_address is None:
            return self.number == 0
        if self.local_rank not in (0, None):
            return False
        if options.head is not None:
            return options.head in (self.host, self.host.partition(".")[0]) or is_this_machine(options.head)
        return options.head_address is not None and is_this_machine(options.head_address[0])

    def card(self) -> RankCard:
        """Return what the leader of this host must know."""
        mask = gpu_mask(os.environ)
        return RankCard(
            self.number, sorted(self.allocation.machine.affinity or ()), list(mask.value) if mask else None
        )

    def host_card(self, address: str, ranks: list[int]) -> HostCard:
        """Return what the head must know of this host."""
        return HostCard(
            rank=self.number,
            host=self.host,
            allocated_as=self.allocated_as,
            address=address,
            ranks=ranks,
            python=".".join(platform.python_version_tuple()[:2]),
            ray=version("ray"),
            muster=version("muster-rl"),
        )

    def address(self, others: list[str]) -> str:
        """Return this host's address for the others; loopback if all ranks are on this host.

        Raises:
            ClusterError: if it has none that others can reach.
        """
        if self.options.interface is None and num_local_ranks(self.allocation) == self.num_ranks:
            return LOOPBACK
        return own_address(others, self.options.interface)

    def records(self, rendezvous: Rendezvous) -> Path:
        """Return the folder of this launch's logs and timeline."""
        folder = self.options.records / rendezvous.launch_id
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        return folder

    def log(self, rendezvous: Rendezvous, host: str | None = None) -> Path:
        """Return the log of Ray on a host."""
        return self.records(rendezvous) / "logs" / f"{host or self.host}.log"

    def timeline(self, rendezvous: Rendezvous, *, on_screen: bool) -> Timeline:
        """Return the record of what happens on this host."""
        return Timeline(self.records(rendezvous), self.host, on_screen=on_screen)


def _expected_ranks(allocation: Allocation, options: LaunchOptions) -> int:
    if options.nodes is not None:
        return options.nodes * (num_local_ranks(allocation) or 1)
    if allocation.ranks and allocation.ranks.num_ranks:
        return allocation.ranks.num_ranks.value
    return len(allocation.hosts.value) if allocation.in_step else 1
