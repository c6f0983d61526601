"""The hosts of the Ray that RAY_ADDRESS names, and using only some of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from muster.clusters.local import ADDRESS_VARIABLE, joined
from muster.errors import ClusterError, InputError

RESERVE_SECONDS = 30.0


@dataclass(frozen=True)
class RayHost:
    """A host of a Ray cluster: its address, and the CPUs that Ray has there."""

    address: str
    cpus: int


@contextmanager
def cluster_hosts() -> Iterator[list[RayHost]]:
    """Join the Ray that RAY_ADDRESS names; give its hosts, this one first.

    Raises:
        InputError: if none is named.
        ClusterError: if it cannot be joined.
    """
    import ray

    if not (address := os.environ.get(ADDRESS_VARIABLE)):
        raise InputError(
            "--nodes: there is no cluster to measure\n"
            "    start it inside an allocation: muster launch -- muster scale ... --nodes 1,2"
        )
    with joined(address, show_worker_output=False):
        own = ray.util.get_node_ip_address()
        hosts = [
            RayHost(node["NodeManagerAddress"], int(node["Resources"].get("CPU", 0)))
            for node in ray.nodes()
            if node["Alive"]
        ]
        yield sorted(hosts, key=lambda host: (host.address != own, host.address))


@contextmanager
def reserved(hosts: Sequence[RayHost]) -> Iterator[None]:
    """Hold all CPUs of some hosts, so that nothing is placed there.

    Raises:
        ClusterError: if they are not free.
    """
    import ray

    bundles = [{"CPU": host.cpus, f"node:{host.address}": 0.001} for host in hosts if host.cpus]
    if not bundles:
        yield
        return
    group = ray.util.placement_group(bundles)
    try:
        if not group.wait(RESERVE_SECONDS):
            names = ", ".join(host.address for host in hosts)
            raise ClusterError(f"the CPUs of {names} are not free\n    does something else use this Ray?")
        yield
    finally:
        ray.util.remove_placement_group(group)
