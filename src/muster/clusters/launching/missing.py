"""Which hosts are not in, and why: the message of a launch whose cluster is not ready."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from muster.clusters.allocation.model import Allocation
from muster.clusters.launching.causes import last_lines, why_absent
from muster.clusters.launching.plan import HostCard
from muster.clusters.launching.rank import Rank
from muster.clusters.launching.rendezvous import Rendezvous


def missing_hosts(allocation: Allocation, hosts: Sequence[HostCard], alive: Collection[str]) -> list[str]:
    """Return the hosts that have not checked in or whose Ray is not alive, by their names in the allocation."""
    came = {card.allocated_as for card in hosts}
    absent = [host.name for host in allocation.hosts.value if host.name not in came]
    return sorted([*absent, *(card.allocated_as for card in hosts if card.address not in alive)])


@dataclass(frozen=True)
class Missing:
    """The hosts that are not in, and all that is known of them."""

    hosts: Sequence[str]
    failures: Mapping[str, str]
    """Why a host cannot come any more, by its name in the allocation."""
    troubles: Mapping[int, str | None]
    """What keeps a host's Ray from reaching the head, by the rank of its leader."""
    seconds: float


def explain_missing(missing: Missing, rank: Rank, rendezvous: Rendezvous, hosts: Sequence[HostCard]) -> str:
    """Return the message: each missing host with the likely cause, and what to do."""
    came = {card.allocated_as: card for card in hosts}
    folder = rendezvous.folder
    unreached = folder.troubles() if folder else {}
    num_hosts = len({*came, *missing.hosts})
    joined = f"{num_hosts - len(missing.hosts)} of {num_hosts} hosts joined"
    lines = [f"cluster not ready after {missing.seconds:.0f} s: {joined}"]
    for host in dict.fromkeys([*missing.hosts, *missing.failures]):
        if host in missing.failures:
            why = missing.failures[host]
        elif host in came:
            trouble = missing.troubles.get(came[host].rank) or "its log ends with:"
            why = f"its Ray did not join: {trouble}{last_lines(rank.log(rendezvous, came[host].host))}"
        elif host in unreached:
            why = f"its rank cannot reach the head: {unreached[host]}"
        else:
            why = why_absent(host, rank.options.records if folder else None)
        lines.append(f"    {host}: {why}")
    ranks = sorted(set(range(rank.num_ranks)) - {number for card in hosts for number in card.ranks})
    if ranks and not missing.hosts:
        lines.append(f"    ranks that have not checked in: {', '.join(map(str, ranks))}")
    lines.append("    --timeout waits longer; --min-nodes continues with fewer hosts")
    return "\n".join(lines)
