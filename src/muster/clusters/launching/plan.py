"""Who does what in a launch: the ranks on each host, and the host's share. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muster.clusters.launching.meeting import RankCard
from muster.clusters.launching.options import LaunchOptions
from muster.clusters.launching.ray_node import Share

_FALLBACK_MEMORY = 2 * 1024**3


@dataclass(frozen=True)
class HostPlan:
    """One host of the launch: its ranks, of which the first leads, and its CPUs."""

    name: str
    ranks: list[int]
    cpu_ids: list[int]
    share: Share

    @property
    def leader(self) -> int:
        """The rank that starts Ray here."""
        return self.ranks[0]


def hosts_of(cards: Mapping[int, RankCard]) -> dict[str, list[int]]:
    """Return the ranks on each host, hosts in the order of their first rank."""
    hosts: dict[str, list[int]] = {}
    for rank in sorted(cards):
        hosts.setdefault(cards[rank].host, []).append(rank)
    return hosts


def plan_host(name: str, cards: Sequence[RankCard], options: LaunchOptions) -> HostPlan:
    """Settle a host's share: the union of its ranks' masks, within what scheduler and cgroup allow."""
    cpu_ids = sorted({cpu for card in cards for cpu in card.affinity})
    limits = [card.scheduler_cpus for card in cards] + [card.cgroup_cpus for card in cards]
    cpus = min([limit for limit in limits if limit is not None] + ([len(cpu_ids)] if cpu_ids else []), default=1)
    memory = min((card.memory for card in cards if card.memory is not None), default=_FALLBACK_MEMORY)
    return HostPlan(
        name,
        sorted(card.rank for card in cards),
        cpu_ids,
        Share(
            options.cpus if options.cpus is not None else max(1, cpus),
            options.gpus if options.gpus is not None else max(card.gpus for card in cards),
            memory,
        ),
    )


def version_mismatch(cards: Mapping[int, RankCard]) -> str | None:
    """Return how hosts differ in what must be the same everywhere, or None."""
    lines = []
    for what in ("python", "ray", "muster"):
        versions: dict[str, list[str]] = {}
        for card in cards.values():
            hosts = versions.setdefault(getattr(card, what), [])
            if card.host not in hosts:
                hosts.append(card.host)
        if len(versions) > 1:
            found = "; ".join(f"{version} on {', '.join(hosts)}" for version, hosts in versions.items())
            lines.append(f"    {what}: {found}")
    if not lines:
        return None
    return "the hosts have different versions\n" + "\n".join(lines) + "\n    use one environment on all of them"
