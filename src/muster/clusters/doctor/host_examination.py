"""All checks of one host, by one of its ranks."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from muster.clusters.allocation.model import Allocation
from muster.clusters.allocation.shares import most_cpus, share_of
from muster.clusters.doctor.cluster_checks import (
    REACHABILITY,
    check_names,
    check_reachability,
)
from muster.clusters.doctor.doctor_options import DoctorOptions
from muster.clusters.doctor.door import Door, knock_at_all
from muster.clusters.doctor.environment_checks import (
    check_open_files,
    check_other_rays,
    check_preload,
    check_processes,
    check_proxies,
    check_ray_address,
)
from muster.clusters.doctor.findings import HostFinding, explained_problem, well
from muster.clusters.doctor.folder_checks import check_shared_memory, check_temporary_folder
from muster.clusters.doctor.ranks import Doorplate, ExaminedRank
from muster.clusters.doctor.share_checks import check_cpus, check_doubts, check_memory
from muster.clusters.doctor.simulator_check import check_simulator
from muster.clusters.launching.addresses import own_address
from muster.clusters.launching.ports import take_ports
from muster.clusters.mounts import read_mounts
from muster.errors import ClusterError

PORTS = "ports"


@contextmanager
def opened_door(allocation: Allocation, options: DoctorOptions) -> Iterator[tuple[Doorplate, list[HostFinding]]]:
    """Answer the other hosts on a port that a launch could have; also return what was found on the way there."""
    findings = []
    try:
        block = take_ports(most_cpus(allocation.granted, allocation.machine), options.port_range)
        findings.append(well(PORTS, "a block of free ports"))
    except ClusterError as error:
        block = None
        findings.append(explained_problem(PORTS, error))
    host = socket.gethostname()
    others = [known.name for known in allocation.hosts.value if known.name != host]
    try:
        address = own_address(others, options.interface)
    except ClusterError as error:
        address = None
        if others or options.interface:
            findings.append(explained_problem(REACHABILITY, error, "name one that it has, or none"))
    door = Door(block.service(0) if block else 0)
    try:
        yield Doorplate(host, address, door.port, door.token), findings
    finally:
        door.close()
        if block:
            block.release()


def examine_host(
    allocation: Allocation, options: DoctorOptions, cards: Iterable[ExaminedRank], plates: Iterable[Doorplate]
) -> list[HostFinding]:
    """Run every check of this host, given the cards of all ranks that came and where their hosts answer."""
    own_name = socket.gethostname()
    plates = list(plates)
    others = [plate for plate in plates if plate.host != own_name]
    addresses = [plate.address for plate in plates if plate.address is not None]
    machine, granted = allocation.machine, allocation.granted
    masks = [frozenset(card.affinity) for card in cards if card.host == own_name and card.affinity]
    share = share_of(granted, machine, masks, [])
    assert share.cpus is not None
    findings = [
        *check_doubts(allocation),
        check_cpus(machine, granted.cpus if granted else None, share.cpus, masks),
        check_memory(share.memory),
        *check_temporary_folder(allocation.scratch, read_mounts()),
        check_shared_memory(),
        check_open_files(resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
        check_processes(resource.getrlimit(resource.RLIMIT_NPROC)[0], share.cpus.value),
        check_preload(os.environ),
        check_proxies(os.environ, ["localhost", *addresses]),
        check_ray_address(os.environ),
        *check_other_rays(),
        *check_names(own_name, [plate.host for plate in others]),
    ]
    if addressed := [plate for plate in others if plate.address is not None]:
        findings.append(check_reachability(knock_at_all(addressed)))
    if options.target is not None:
        findings.append(check_simulator(options.target, options.timeout))
    return findings
