"""Open MPI and MPICH side by side on the lab's hosts, their ranks started over ssh."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .host import Host


@dataclass(frozen=True)
class Mpi:
    """One kind of MPI: how its mpirun is called."""

    name: str
    program: str
    options: tuple[str, ...]
    """Up to and with the one that takes the list of hosts."""
    env: Mapping[str, str] = field(default_factory=dict)

    def command(self, hosts: Sequence[Host], ranks_per_host: int, command: Sequence[str | Path]) -> list[str]:
        """The mpirun that starts `command` so many times on each of the hosts."""
        listed = ",".join(f"{host.name}:{ranks_per_host}" for host in hosts)
        num_ranks = str(ranks_per_host * len(hosts))
        return [self.program, *self.options, listed, "-np", num_ranks, *map(str, command)]

    def run(
        self, hosts: Sequence[Host], ranks_per_host: int, command: Sequence[str | Path]
    ) -> subprocess.CompletedProcess[str]:
        """Run it from the first of the hosts; needs sshd when there are several."""
        return hosts[0].run(self.command(hosts, ranks_per_host, command), env=self.env)


OPEN_MPI = Mpi(
    name="openmpi",
    program="mpirun.openmpi",
    options=("--host",),
    env={"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
)
MPICH = Mpi(
    name="mpich",
    program="mpirun.mpich",
    options=("-launcher", "ssh", "-hosts"),
)
KINDS = (OPEN_MPI, MPICH)
PROGRAMS = tuple(kind.program for kind in KINDS)
