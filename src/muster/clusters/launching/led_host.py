"""A host and the rank that leads it, the head's or any other: its ranks, and the one Ray that they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from muster.clusters.launching.host_ray import HostRay, held_host
from muster.clusters.launching.local_ranks import LocalLeader
from muster.clusters.launching.plan import HostCard, num_local_ranks, plan_host, with_told_share
from muster.clusters.launching.ports import PortBlock
from muster.clusters.launching.rank import Rank
from muster.clusters.launching.rendezvous import Rendezvous
from muster.clusters.launching.timeline import Timeline


@dataclass(frozen=True)
class RayPlace:
    """Where a host's Ray is to be."""

    address: str
    """This host's own."""
    head: str | None
    """That of Ray's head with its port; None if it is to be here."""
    token: str
    hosts: Sequence[str]
    """Hosts that Ray reaches without a proxy."""

    def head_address(self, ports: PortBlock) -> str:
        """Return where Ray's head is, given this host's ports."""
        return self.head or f"{self.address}:{ports.service(0)}"


class LedHost:
    """What the leader of a host knows of it, and how it brings Ray up there."""

    def __init__(self, rank: Rank, rendezvous: Rendezvous, leader: LocalLeader, *, on_screen: bool) -> None:
        self.rank = rank
        self.rendezvous = rendezvous
        self.leader = leader
        self._on_screen = on_screen

    @cached_property
    def timeline(self) -> Timeline:
        """The record of what happens on this host; its folder is made when the first event is added."""
        timeline = self.rank.timeline(self.rendezvous, on_screen=self._on_screen)
        timeline.add("rank here", rank=self.rank.number)
        return timeline

    def local_ranks(self) -> list[int]:
        """Return the ranks of this host that have come."""
        return [card.rank for card in self.leader.cards()]

    def are_all_ranks_here(self) -> bool:
        """Whether all ranks of this host have come, as far as someone tells how many there are."""
        expected = num_local_ranks(self.rank.allocation)
        return expected is not None and len(self.leader.cards()) >= expected

    def card(self, address: str) -> HostCard:
        """Return what the head must know of this host."""
        return self.rank.host_card(address, self.local_ranks())

    @property
    def log(self) -> Path:
        """The log of Ray on this host."""
        return self.rank.log(self.rendezvous)

    @contextmanager
    def held_ray(self, folders: Sequence[Path] = ()) -> Iterator[HostRay]:
        """Hold what Ray needs on this host; `folders` are removed if this process dies."""
        with held_host(self.rank.allocation, self.log, folders) as ray:
            yield ray

    def start_ray(
        self, ray: HostRay, ports: PortBlock, place: RayPlace, told: dict[str, Any] | None = None
    ) -> dict[str, str]:
        """Start Ray with the share of all ranks that are here; return its environment.

        `told` is what the head knows of that share, where it knows more.

        Raises:
            ClusterError: if the lines of `setup` fail.
        """
        allocation = with_told_share(self.rank.allocation, told)
        plan = plan_host(allocation, self.leader.cards(), self.rank.options)
        environment = ray.start(
            self.rank.options,
            plan,
            ports,
            address=place.address,
            head=place.head,
            token=place.token,
            hosts=place.hosts,
        )
        if place.head is None:
            self.timeline.add("head started", address=place.head_address(ports), cpus=plan.share.cpus)
        else:
            self.timeline.add("ray started", cpus=plan.share.cpus)
        return environment
