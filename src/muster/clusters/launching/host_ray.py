"""Ray on this host: its ports, its temporary folder, and the keeper that holds its processes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from muster.clusters.allocation.machine import gpu_mask
from muster.clusters.allocation.model import Allocation
from muster.clusters.allocation.shares import most_cpus
from muster.clusters.launching.keeper_client import Keeper
from muster.clusters.launching.launch_options import LaunchOptions
from muster.clusters.launching.plan import HostPlan
from muster.clusters.launching.ports import PortBlock, take_ports
from muster.clusters.launching.ray_node import ray_environment, start_command
from muster.clusters.launching.setup import environment_after
from muster.clusters.temporary import RAY_FOLDER, temporary_folder

RAY = "ray"
WELL = (0, 75, 130, 143)
"""Codes of a launch after which nobody wants Ray's logs."""


class HostRay:
    """What a leader starts on its host, and ends there."""

    def __init__(self, folder: Path, keeper: Keeper, log: Path) -> None:
        self._folder = folder
        self.keeper = keeper
        self.log = log
        keeper.keep_logs(folder / RAY_FOLDER, log.with_suffix(""))

    def start(
        self,
        options: LaunchOptions,
        plan: HostPlan,
        ports: PortBlock,
        *,
        address: str,
        head: str | None,
        token: str,
        hosts: Sequence[str],
    ) -> dict[str, str]:
        """Start Ray with this host's share, as the head or joining one; return its environment.

        Raises:
            ClusterError: if the lines of `setup` fail.
        """
        if hasattr(os, "sched_setaffinity") and plan.cpu_ids:
            os.sched_setaffinity(0, plan.cpu_ids)
        environ = environment_after(options.setup, os.environ)
        environment = ray_environment(environ, _write_token(self.token, token), address, hosts, options.unset)
        if plan.gpu_devices is not None and (mask := gpu_mask(os.environ)) is not None:
            environment[mask.source] = ",".join(plan.gpu_devices)
        command = start_command(
            address=address,
            share=plan.share,
            ports=ports,
            folder=self._folder,
            head=head,
            dashboard=options.dashboard and head is None,
        )
        self.keeper.start(RAY, command, environment, self.log)
        return environment

    @property
    def token(self) -> Path:
        """The file of the token on this host."""
        return self._folder / "token"

    def exit(self) -> dict[str, Any] | None:
        """Return how Ray exited, or None while it runs.

        Raises:
            KeeperLostError: if its keeper is gone.
        """
        return self.keeper.exit_of(RAY)

    def end(self, code: int | None) -> None:
        """End everything; after a failure, keep the ends of Ray's logs beside its output."""
        if code in WELL:
            self.keeper.keep_logs(self._folder / RAY_FOLDER, None)
        self.keeper.end()


@contextmanager
def held_ports(allocation: Allocation, options: LaunchOptions) -> Iterator[PortBlock]:
    """Hold a block of ports, enough for all CPUs that the scheduler or the machine may give this host's ranks."""
    ports = take_ports(options.cpus or most_cpus(allocation.granted, allocation.machine), options.port_range)
    try:
        yield ports
    finally:
        ports.release()


@contextmanager
def held_host(allocation: Allocation, log: Path, folders: Sequence[Path] = ()) -> Iterator[HostRay]:
    """Hold a temporary folder on this host's own disk and a keeper; `folders` are removed if this process dies."""
    with temporary_folder(allocation.scratch.value) as folder:
        yield HostRay(folder, Keeper([folder, *folders]), log)


def _write_token(path: Path, token: str) -> Path:
    """Write the token for our own eyes, from its first moment on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token)
    return path
