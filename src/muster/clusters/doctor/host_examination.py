"""All checks of one host, by one of its ranks."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from muster.clusters.allocation.model import Allocation
from muster.clusters.doctor.cluster_checks import check_other_names, check_own_name, check_reachability
from muster.clusters.doctor.door import Door, knock_at_all
from muster.clusters.doctor.environment_checks import (
    check_open_files,
    check_other_rays,
    check_preload,
    check_processes,
    check_proxies,
    check_ray_address,
)
from muster.clusters.doctor.findings import Finding, problem, well
from muster.clusters.doctor.folder_checks import check_shared_memory, check_temporary_folder, read_mounts
from muster.clusters.doctor.options import DoctorOptions
from muster.clusters.doctor.ranks import Card, speakers
from muster.clusters.doctor.share_checks import check_cpus, check_doubts, check_memory
from muster.clusters.doctor.simulator_check import check_simulator
from muster.clusters.launching.ports import take_ports
from muster.errors import ClusterError

PORTS = "ports"


@contextmanager
def opened_door(port_range: tuple[int, int] | None) -> Iterator[tuple[Door, Finding]]:
    """Hold a block of ports as a launch would, and answer on its first one; on any other if there is no block."""
    try:
        block = take_ports(*port_range) if port_range else take_ports()
    except ClusterError as error:
        message, _, remedy = str(error).partition("\n")
        block, finding = None, problem(PORTS, message, remedy.strip())
    else:
        finding = well(PORTS, "a block of free ports")
    door = Door(block.service(0) if block else 0)
    try:
        yield door, finding
    finally:
        door.close()
        if block:
            block.release()


def examine_host(allocation: Allocation, options: DoctorOptions, cards: Iterable[Card]) -> list[Finding]:
    """Run every check of this host; the cards are those of all ranks that came."""
    cards = list(cards)
    own_name = socket.gethostname()
    others = [card for host, card in speakers(cards).items() if host != own_name]
    addresses = [card.address for card in others if card.address is not None]
    machine, granted = allocation.machine, allocation.granted
    masks = [frozenset(card.affinity) for card in cards if card.host == own_name and card.affinity]
    num_cpus = min(len(mask) for mask in masks) if masks else machine.cpus
    findings = [
        *check_doubts(allocation),
        check_cpus(machine, granted.cpus if granted else None, masks),
        check_memory(machine, granted.memory if granted else None),
        *check_temporary_folder(allocation.scratch, read_mounts()),
        check_shared_memory(),
        check_open_files(resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
        check_processes(resource.getrlimit(resource.RLIMIT_NPROC)[0], num_cpus),
        check_preload(os.environ),
        check_proxies(os.environ, ["localhost", own_name, *addresses]),
        check_ray_address(os.environ),
        *check_other_rays(),
        check_own_name(own_name),
    ]
    if others:
        findings.append(check_other_names(card.host for card in others))
        findings.append(check_reachability(knock_at_all(others)))
    if options.target is not None:
        findings.append(check_simulator(options.target, options.timeout))
    return findings
