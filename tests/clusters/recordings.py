"""Recorded environments: what a process sees under a scheduler, and the allocation it is to find in it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.clusters.allocation.model import Allocation, Machine
from muster.clusters.allocation.reading import read_allocation

FOLDER = Path(__file__).parent / "environments"
MACHINE_CPUS = 256
UNKNOWN = -1
MEBIBYTE = 1024**2


@dataclass(frozen=True)
class Recording:
    """One recorded environment, its files written out."""

    environ: dict[str, str]
    machine: Machine
    expected: dict[str, Any]

    def read(self, **changes: str) -> Allocation:
        """Read the allocation, with some variables changed."""
        return read_allocation({**self.environ, **changes}, self.machine)


def load(name: str, folder: Path) -> Recording:
    """Load a recording; its files and commands are made in the folder, and nothing else is on PATH."""
    table = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    files = {}
    for file_name, content in table.get("files", {}).items():
        (folder / file_name).write_text(content)
        files[file_name] = str(folder / file_name)
    for command, script in table.get("commands", {}).items():
        put_on_path(folder, command, script)
    environ = {key: value.format(**files) for key, value in table["environment"].items()}
    affinity = table.get("affinity")
    machine = Machine(
        table["host"],
        cpus=table.get("machine_cpus", MACHINE_CPUS),
        gpus=table.get("machine_gpus", 0),
        affinity=None if affinity is None else frozenset(affinity),
    )
    return Recording({"PATH": str(folder / "bin"), **environ}, machine, table["expected"])


def put_on_path(folder: Path, command: str, script: str) -> None:
    """Make a command that runs a script of the shell."""
    path = folder / "bin" / command
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def summarise(allocation: Allocation) -> dict[str, Any]:
    """Write an allocation as a recording's [expected] has it: without what is unknown."""
    hosts, ranks = allocation.hosts.value, allocation.ranks
    sourced = {
        "scheduler": allocation.scheduler,
        "launcher": ranks and ranks.launcher,
        "host_index": allocation.host_index,
        "rank": ranks and ranks.rank,
        "num_ranks": ranks and ranks.num_ranks,
        "local_rank": ranks and ranks.local_rank,
        "num_local_ranks": ranks and ranks.num_local_ranks,
        "job_id": allocation.job_id,
        "step_id": ranks and ranks.step_id,
        "launch_id": allocation.launch_id,
        "end_time": allocation.end_time,
    }
    summary: dict[str, Any] = {key: found.value for key, found in sourced.items() if found}
    summary["hosts"] = [host.name for host in hosts]
    summary["cpus"] = [host.cpus.value if host.cpus else UNKNOWN for host in hosts]
    summary["gpus"] = [host.gpus.value if host.gpus else UNKNOWN for host in hosts]
    if any(host.memory for host in hosts):
        summary["memory_mib"] = [host.memory.value // MEBIBYTE if host.memory else UNKNOWN for host in hosts]
    if allocation.ranks_per_host:
        summary["ranks_per_host"] = list(allocation.ranks_per_host.value)
    if not allocation.knows_all_hosts:
        summary["knows_all_hosts"] = False
    return summary


def sources(allocation: Allocation) -> dict[str, str]:
    """Return where an allocation's values came from; shares are those of this host."""
    host, ranks = allocation.this_host, allocation.ranks
    found = {
        "hosts": allocation.hosts,
        "rank": ranks and ranks.rank,
        "launch_id": allocation.launch_id,
        "end_time": allocation.end_time,
        "cpus": host and host.cpus,
        "gpus": host and host.gpus,
        "memory": host and host.memory,
    }
    return {key: value.source for key, value in found.items() if value}
