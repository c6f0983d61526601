"""What only shows between hosts: who came, versions, clocks, names, reachability."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from muster.clusters.allocation.host_lists import short_name
from muster.clusters.doctor.findings import HostFinding, problem, warning, well
from muster.clusters.doctor.ranks import ExaminedRank
from muster.environment_variables import RUNS_DIR_VARIABLE

PRESENCE, SHARED, VERSIONS, CLOCK = "presence", "shared folder", "versions", "clock"
NAMES, REACHABILITY = "names", "reachability"
WARN_SKEW_SECONDS, WORST_SKEW_SECONDS = 2.0, 30.0
"""A host whose clock is a minute off shows healthy runs as lost."""


@dataclass(frozen=True)
class ClockReading:
    """A question of rank 0's and its answer: the first and last time are its own clock's."""

    asked: float
    answered: float
    received: float

    @property
    def skew(self) -> float:
        """Seconds by which the other clock is ahead for certain, however long the messages took; else 0."""
        if self.answered > self.received:
            return self.answered - self.received
        return min(0.0, self.answered - self.asked)


def check_versions(cards: Iterable[ExaminedRank]) -> dict[str, HostFinding]:
    """Compare each host's versions with those of rank 0's host."""
    ordered = sorted(cards, key=lambda card: card.rank)
    first, findings = ordered[0], {}
    for card in ordered:
        differences = [
            f"{what} {card.versions.get(what)} here, {expected} on {first.host}"
            for what, expected in first.versions.items()
            if card.versions.get(what) != expected
        ]
        if differences:
            remedy = "activate the same Python environment on every host, on a folder that they share"
            findings[card.host] = problem(VERSIONS, "; ".join(differences), remedy)
        else:
            same = ", ".join(f"{what} {value}" for what, value in first.versions.items())
            findings.setdefault(card.host, well(VERSIONS, same))
    return findings


def check_clock(reading: ClockReading) -> HostFinding:
    """Judge a host's clock against rank 0's."""
    seconds = abs(reading.skew)
    if seconds < WARN_SKEW_SECONDS:
        return well(CLOCK, "agrees with rank 0's")
    way = "ahead of" if reading.skew > 0 else "behind"
    judge = problem if seconds >= WORST_SKEW_SECONDS else warning
    return judge(
        CLOCK,
        f"at least {seconds:.0f} s {way} that of rank 0's host: runs look lost, and wall times are missed",
        "ask your site to set this host's clock (NTP or chrony), or leave the host out",
    )


def check_presence(
    hosts: Iterable[str], num_ranks: int, cards: Iterable[ExaminedRank], folder: Path, seconds: float
) -> dict[str, HostFinding]:
    """Name the hosts that never came, or the ranks where the launcher names no hosts."""
    cards = list(cards)
    came = {short_name(card.host) for card in cards}
    missing = [host for host in hosts if short_name(host) not in came]
    if not missing:
        ranks = sorted(set(range(num_ranks)) - {card.rank for card in cards})
        missing = [f"rank {rank}" for rank in ranks]
    message = (
        f"did not come within {seconds:g} s: no rank was started there, or it does not see the folder "
        f"{folder} that rank 0 wrote"
    )
    remedy = (
        "start one rank on every host (srun --ntasks-per-node=1 muster doctor), with --runs-dir or "
        f"{RUNS_DIR_VARIABLE} on a file system that all hosts share, and not in /tmp"
    )
    return {name: problem(PRESENCE, message, remedy) for name in missing}


def check_names(own: str, others: Iterable[str]) -> list[HostFinding]:
    """Look whether the hosts' names lead to addresses, and this host's own to one that others can use."""
    findings = []
    address = _resolve(own)
    if address is None or _is_loopback(address):
        means = "has no address" if address is None else f"means the loopback address {address}"
        findings.append(
            warning(
                NAMES,
                f"this host's own name, {own}, {means}: other hosts cannot use it",
                "harmless on a machine alone; for several hosts ask your site to mend DNS or /etc/hosts, or name "
                "the network with --interface, such as --interface ib0",
            )
        )
    addresses = {name: _resolve(name) for name in others}
    wrong = [f"{name} has no address" for name, found in addresses.items() if found is None]
    wrong += [f"{name} means this very host" for name, found in addresses.items() if _is_loopback(found)]
    if wrong:
        remedy = "muster's Ray uses addresses, not names; if your simulator uses names, put them into /etc/hosts"
        findings.append(warning(NAMES, "; ".join(wrong), remedy))
    return findings or [well(NAMES, "every host's name has an address")]


def check_reachability(unreachable: Mapping[str, str]) -> HostFinding:
    """Judge which hosts this one could not connect to, each with its reason."""
    if not unreachable:
        return well(REACHABILITY, "reaches all other hosts")
    return problem(
        REACHABILITY,
        "; ".join(f"cannot connect to {host} ({reason})" for host, reason in unreachable.items()),
        "try another network with --interface (ip -brief address lists them); a firewall between the hosts must "
        "let through the ports of --port-range; else leave the host out (srun --exclude=HOST)",
    )


def _resolve(name: str) -> str | None:
    try:
        return socket.gethostbyname(name)
    except OSError:
        return None


def _is_loopback(address: str | None) -> bool:
    return address is not None and ipaddress.ip_address(address).is_loopback
