"""How Ray is started on one host: its command, its environment, its share of the host."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from muster.clusters.launching.ports import PortBlock
from muster.clusters.local import ADDRESS_VARIABLE, NO_METRICS_SERVERS, OF_ANOTHER_RAY
from muster.clusters.temporary import RAY_FOLDER
from muster.environment_variables import (
    IN_CONTAINER_VARIABLE,
    LAUNCH_TOKEN_VARIABLE,
    NUM_RANKS_VARIABLE,
    ORDERS_ON_STDIN_VARIABLE,
    RANK_VARIABLE,
    STEP_VARIABLE,
)

MIB = 1024**2
LOOPBACK = "127.0.0.1"
DASHBOARD_SERVICE = 8
"""The dashboard's place in the head's block of ports."""
_LARGEST_OBJECT_STORE = 1024 * MIB
_SMALLEST_OBJECT_STORE = 80 * MIB

# Eight looks that fail lose a host: 24 s if each is refused at once, 40 s if each waits in vain. So a cut of 20 s
# does not lose one, and a dead one is noticed within 45 s.
_HEALTH = {
    "RAY_health_check_initial_delay_ms": "5000",
    "RAY_health_check_period_ms": "3000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "8",
    "RAY_grpc_client_keepalive_time_ms": "5000",
    "RAY_grpc_client_keepalive_timeout_ms": "10000",
}
_TOLERANT = {"RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL": "minor"}
"""Hosts of one's own seldom have the same patch of Python, which neither bytecode nor pickles depend on."""
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_grpc_enable_http_proxy": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_enable_metrics_collection": "0",
    **NO_METRICS_SERVERS,
}
_LAUNCHER_PREFIXES = (
    "OMPI_",
    "PMIX_",
    "PMI_",
    "PRTE_",
    "MPI_",
    "MV2_",
    "HYDRA_",
    "HYDI_",
    "I_MPI_",
    "PALS_",
    "ALPS_",
)
FOREIGN_RAY = (ADDRESS_VARIABLE, *OF_ANOTHER_RAY)
"""Beginnings of the names of variables that lead to another Ray."""
_OF_THE_RANK = (
    *(LAUNCH_TOKEN_VARIABLE, ORDERS_ON_STDIN_VARIABLE, STEP_VARIABLE, IN_CONTAINER_VARIABLE),
    *(RANK_VARIABLE, NUM_RANKS_VARIABLE),
)


@dataclass(frozen=True)
class Share:
    """What Ray may use of a host."""

    cpus: int
    gpus: int
    memory: int

    @property
    def object_store(self) -> int:
        """Bytes for Ray's shared objects; capped, since little is needed and `/dev/shm` may be small."""
        return max(_SMALLEST_OBJECT_STORE, min(_LARGEST_OBJECT_STORE, self.memory // 10, _shared_memory() // 2))


def start_command(
    *, address: str, share: Share, ports: PortBlock, folder: Path, head: str | None, dashboard: bool
) -> list[str]:
    """Return the `ray start` of a worker host, or with `head=None` of the head."""
    first_worker, last_worker = ports.workers
    options = {
        "node-ip-address": address,
        "num-cpus": share.cpus,
        "num-gpus": share.gpus,
        "memory": max(MIB, share.memory - share.object_store),
        "object-store-memory": share.object_store,
        "node-manager-port": ports.service(1),
        "object-manager-port": ports.service(2),
        "dashboard-agent-listen-port": ports.service(3),
        "dashboard-agent-grpc-port": ports.service(4),
        "runtime-env-agent-port": ports.service(5),
        "metrics-export-port": ports.service(6),
        "min-worker-port": first_worker,
        "max-worker-port": last_worker,
        "temp-dir": folder / RAY_FOLDER,
    }
    if head is None:
        options |= {
            "port": ports.service(0),
            "ray-client-server-port": ports.service(7),
            "include-dashboard": str(dashboard).lower(),
            "dashboard-host": LOOPBACK,
            "dashboard-port": ports.service(DASHBOARD_SERVICE),
        }
    else:
        options["address"] = head
    role = ["--head"] if head is None else []
    flags = [f"--{name}={value}" for name, value in options.items()]
    return [sys.executable, "-m", "ray.scripts.scripts", "start", *role, "--block", *flags]


def ray_environment(
    environ: Mapping[str, str], token: Path, address: str, hosts: Iterable[str], unset: Iterable[str] = ()
) -> dict[str, str]:
    """Return the environment of Ray and the command: without the launcher's and a foreign Ray's variables.

    Ray replaces a loopback address by another one of this host, and listens on all of them, unless it is told that
    this system knows no clusters.
    """
    dropped = {*unset, *_OF_THE_RANK}
    kept = {
        name: value
        for name, value in environ.items()
        if name not in dropped and not name.startswith((*_LAUNCHER_PREFIXES, *FOREIGN_RAY))
    }
    if address == LOOPBACK:
        kept["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    bypassed = ",".join(filter(None, [environ.get("no_proxy"), "localhost", LOOPBACK, address, *hosts]))
    return {
        **kept,
        **_HEALTH,
        **_QUIET,
        **_TOLERANT,
        "no_proxy": bypassed,
        "NO_PROXY": bypassed,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
    }


def _shared_memory() -> int:
    try:
        status = os.statvfs("/dev/shm")
    except OSError:
        return _LARGEST_OBJECT_STORE
    return status.f_bavail * status.f_frsize
