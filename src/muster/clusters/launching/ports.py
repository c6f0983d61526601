"""A block of free ports on this host, held for as long as the process that took it lives."""

from __future__ import annotations

import random
import socket
from dataclasses import dataclass

from muster.errors import ClusterError

FIRST_PORT, LAST_PORT = 20_000, 32_000
FIXED_PORTS = 10
CELL_SIZE = 100
"""Blocks are made of whole cells, which begin at multiples of this: so blocks of any size can be told apart."""
WORKERS_PER_CPU = 3
LEAST_WORKER_PORTS = 2 * CELL_SIZE - FIXED_PORTS
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class PortBlock:
    """Ports from `first` to `last`: the first ones for services, the rest for Ray's workers."""

    first: int
    last: int
    guards: tuple[socket.socket, ...]

    def service(self, number: int) -> int:
        """Return the port of one of the services."""
        assert number < FIXED_PORTS
        return self.first + number

    @property
    def workers(self) -> tuple[int, int]:
        """Return the first and last port for workers."""
        return self.first + FIXED_PORTS, self.last

    def release(self) -> None:
        """Let others have the block."""
        for guard in self.guards:
            guard.close()


def ports_needed(num_cpus: int) -> int:
    """Return how many ports a host needs: for the services, and for a few workers a CPU."""
    needed = FIXED_PORTS + max(LEAST_WORKER_PORTS, WORKERS_PER_CPU * num_cpus)
    return -(-needed // CELL_SIZE) * CELL_SIZE


def take_ports(num_cpus: int, port_range: tuple[int, int] | None = None) -> PortBlock:
    """Take a block of ports that nobody holds and that are all free, below the system's own range.

    Raises:
        ClusterError: if there is none.
    """
    low, high = port_range or (FIRST_PORT, LAST_PORT)
    size = ports_needed(num_cpus)
    first_cell = -(-low // CELL_SIZE) * CELL_SIZE
    starts = list(range(first_cell, high + 2 - size, size))
    random.shuffle(starts)
    for first in starts:
        guards = _hold(range(first, first + size, CELL_SIZE))
        if guards is None:
            continue
        block = PortBlock(first, first + size - 1, guards)
        if all(_is_free(port) for port in range(block.first, block.last + 1)):
            return block
        block.release()
    where = f"from {low} to {high} on {socket.gethostname()}"
    if starts:
        raise ClusterError(f"no block of {size} free ports {where}\n    choose another range with --port-range")
    raise ClusterError(
        f"{num_cpus} CPUs need {size} ports, the first a multiple of {CELL_SIZE}; there are not so many {where}\n"
        f"    choose a wider range, such as --port-range {first_cell}-{first_cell + 4 * size}"
    )


def _hold(cells: range) -> tuple[socket.socket, ...] | None:
    """Hold cells against every other user of this host: each by a UDP socket, which only one process can bind.

    It needs no file that others could lock or plant, and ends with its process. Nothing is received there: a
    socket that is connected to itself takes no datagrams from others.
    """
    guards: list[socket.socket] = []
    for cell in cells:
        guard = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        guards.append(guard)
        try:
            guard.bind((_LOOPBACK, cell))
            guard.connect((_LOOPBACK, cell))
        except OSError:
            for taken in guards:
                taken.close()
            return None
    return tuple(guards)


def _is_free(port: int) -> bool:
    """Whether Ray could listen there: as for Ray, connections of before that are closing do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
