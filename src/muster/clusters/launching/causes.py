"""Why a host is not in: what can be found out from here, in words for a person."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from muster.clusters.launching.board_client import unreachable
from muster.clusters.launching.board_server import Address
from muster.clusters.mounts import NETWORK_TYPES, mount_type, read_mounts

KNOCK_SECONDS = 3.0
LAST_LINES = 8


def why_unreachable(address: Address) -> str | None:
    """Knock at an address; return why nobody can come in there, or None if the door opens."""
    try:
        socket.create_connection(address, timeout=KNOCK_SECONDS).close()
    except OSError as error:
        return unreachable(address, error)
    return None


def why_absent(host: str, records: Path | None) -> str:
    """Say why no rank of a host may have checked in, by the shared folder `records` if there is one."""
    lines = ["no rank has checked in: did the launcher start one there?"]
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        lines = [f"the name is not known on {socket.gethostname()}: check its spelling, or give the IP address"]
    if records is not None:
        kind = mount_type(records, read_mounts())
        doubt = "" if kind is None or kind in NETWORK_TYPES else f" (on {kind} here, which hosts seldom share)"
        lines += [
            f"if it did, that rank does not see the shared folder {records}{doubt}:",
            "choose another with --runs-dir, or do without one by --head-address or mpi4py",
            f"if `muster` is not on PATH there, start the ranks with {sys.executable} -m muster",
        ]
    return "\n      ".join(lines)


def last_lines(log: Path) -> str:
    """Return the end of a log, each line indented below what is said of it; nothing if there is no log."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
    except OSError:
        return ""
    return "".join(f"\n      {line}" for line in lines)
