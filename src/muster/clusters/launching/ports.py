"""A block of free ports on this host, held by a lock for as long as the process that took it lives."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from muster.errors import ClusterError

FIRST_PORT, LAST_PORT = 20_000, 32_000
FIXED_PORTS = 10
BLOCK_SIZE = 200


@dataclass(frozen=True)
class PortBlock:
    """Ports from `first` to `last`: the first ones for Ray's services, the rest for its workers."""

    first: int
    last: int
    lock: IO[str]

    def service(self, number: int) -> int:
        """Return the port of one of Ray's services."""
        assert number < FIXED_PORTS
        return self.first + number

    @property
    def workers(self) -> tuple[int, int]:
        """Return the first and last port for workers."""
        return self.first + FIXED_PORTS, self.last

    def release(self) -> None:
        """Let others have the block."""
        self.lock.close()


def take_ports(low: int = FIRST_PORT, high: int = LAST_PORT) -> PortBlock:
    """Take a block of ports that nobody holds and that are all free, below the system's own range.

    Raises:
        ClusterError: if there is none.
    """
    blocks = [(first, min(first + BLOCK_SIZE, high) - 1) for first in range(low, high - FIXED_PORTS, BLOCK_SIZE)]
    random.shuffle(blocks)
    for first, last in blocks:
        lock = _lock(first)
        if lock is None:
            continue
        if all(_is_free(port) for port in range(first, last + 1)):
            return PortBlock(first, last, lock)
        lock.close()
    raise ClusterError(
        f"no block of {BLOCK_SIZE} free ports from {low} to {high} on {socket.gethostname()}\n"
        "    choose another range with --port-range"
    )


def _lock(first: int) -> IO[str] | None:
    """Lock a block by a file that every user of the host can lock."""
    folder = Path(tempfile.gettempdir()) / "muster-ports"
    try:
        folder.mkdir(mode=0o1777, exist_ok=True)
        path = folder / str(first)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        lock = os.fdopen(descriptor, "r+")
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return None
    return lock


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
