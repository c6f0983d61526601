"""Who does what in a launch: the ranks on each host, and the host's share. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from muster.clusters.allocation.host_lists import short_name
from muster.clusters.allocation.model import Allocation, Sourced
from muster.clusters.allocation.shares import from_table, narrowed, share_of
from muster.clusters.launching.launch_options import LaunchOptions
from muster.clusters.launching.local_ranks import RankCard
from muster.clusters.launching.ray_node import Share

_FALLBACK_MEMORY = 2 * 1024**3


@dataclass(frozen=True)
class HostCard:
    """What the leader of a host tells the head."""

    rank: int
    """The leader's."""
    host: str
    allocated_as: str
    """The host's name in the allocation, which may be spelled differently."""
    address: str
    ranks: list[int]
    python: str
    ray: str
    muster: str


@dataclass(frozen=True)
class HostPlan:
    """What Ray gets of a host."""

    cpu_ids: list[int]
    gpu_devices: list[str] | None
    """Devices of all ranks' masks; None where no rank has a mask."""
    share: Share


def plan_host(allocation: Allocation, cards: Sequence[RankCard], options: LaunchOptions) -> HostPlan:
    """Settle a host's share: all CPUs and GPUs of its ranks' masks, within what scheduler and cgroup allow."""
    cpu_masks = [frozenset(card.affinity) for card in cards if card.affinity]
    gpu_masks = [Sourced(tuple(card.gpu_mask), "masks") for card in cards if card.gpu_mask is not None]
    own = share_of(allocation.granted, allocation.machine, cpu_masks, gpu_masks)
    devices = list(dict.fromkeys(device for mask in gpu_masks for device in mask.value))
    return HostPlan(
        cpu_ids=sorted(frozenset[int]().union(*cpu_masks)),
        gpu_devices=devices if gpu_masks else None,
        share=Share(
            options.cpus if options.cpus is not None else max(1, own.cpus.value if own.cpus else 1),
            options.gpus if options.gpus is not None else own.gpus.value if own.gpus else 0,
            own.memory.value if own.memory else _FALLBACK_MEMORY,
        ),
    )


def shares_to_hand_on(allocation: Allocation) -> dict[str, dict[str, Any]]:
    """Return what the head tells the other hosts of their shares, by short names: only what it alone knows."""
    if not allocation.are_handed_on:
        return {}
    return {short_name(host.name): asdict(host) for host in allocation.hosts.value}


def with_told_share(allocation: Allocation, told: dict[str, Any] | None) -> Allocation:
    """Return an allocation in which this host's share is also limited by what the head has told."""
    if told is None:
        return allocation
    return replace(allocation, granted=narrowed(allocation.granted, from_table(told)))


def num_local_ranks(allocation: Allocation) -> int | None:
    """Return how many ranks the launcher started on this host; None if nobody tells."""
    ranks = allocation.ranks
    if ranks is None or (ranks.num_ranks and ranks.num_ranks.value == 1):
        return 1
    if ranks.num_local_ranks is not None:
        return ranks.num_local_ranks.value
    if allocation.ranks_per_host is not None and allocation.host_index is not None:
        return allocation.ranks_per_host.value[allocation.host_index.value]
    if ranks.num_ranks and allocation.knows_all_hosts and ranks.num_ranks.value == len(allocation.hosts.value):
        return 1
    return None


def version_mismatch(cards: Iterable[HostCard]) -> str | None:
    """Return how hosts differ in what must be the same everywhere, or None."""
    cards = list(cards)
    lines = []
    for what in ("python", "ray", "muster"):
        versions: dict[str, list[str]] = {}
        for card in cards:
            versions.setdefault(getattr(card, what), []).append(card.host)
        if len(versions) > 1:
            found = "; ".join(f"{version} on {', '.join(hosts)}" for version, hosts in versions.items())
            lines.append(f"    {what}: {found}")
    if not lines:
        return None
    return "the hosts have different versions\n" + "\n".join(lines) + "\n    use one environment on all of them"
