"""The folders that Ray needs on a host: temporary files with sockets, and shared memory."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from muster.clusters.allocation.model import Sourced
from muster.clusters.doctor.findings import HostFinding, problem, warning, well
from muster.clusters.mounts import NETWORK_TYPES, mount_type

TEMPORARY, SHARED_MEMORY = "temporary folder", "/dev/shm"
LONGEST_SOCKET_PATH = 107
SOCKET_BELOW = "/mu-12345678/session_2000-01-01_00-00-00_123456_1234567/sockets/plasma_store"
"""What comes after the temporary folder in the longest of Ray's socket paths."""
FALLBACK = Path("/tmp")
"""Where a launch puts its folder if the scheduler's own is too deep."""
MIB, GIB = 1024**2, 1024**3
LEAST_SPACE, GOOD_SPACE = 100 * MIB, 2 * GIB
GOOD_SHARED_MEMORY = GIB


def check_temporary_folder(folder: Sourced[str], mounts: str, fallback: Path = FALLBACK) -> list[HostFinding]:
    """Look whether Ray's sockets and logs can be in the folder, or in the one that is taken instead."""
    findings = []
    path = Path(folder.value)
    length = len(os.fsencode(f"{path}{SOCKET_BELOW}"))
    if length > LONGEST_SOCKET_PATH:
        findings.append(
            warning(
                TEMPORARY,
                f"{folder}: Ray's socket paths below it would have {length} bytes, and the system allows "
                f"{LONGEST_SOCKET_PATH}; muster takes {fallback} instead",
                "export TMPDIR to a folder on this host's own disk with a path of 30 characters at most",
            )
        )
        path = fallback
    return findings + (_check_kind(path, mounts) or [well(TEMPORARY, "on this host, writable, with space enough")])


def check_shared_memory(folder: Path = Path(SHARED_MEMORY)) -> HostFinding:
    """Look whether Ray's shared objects have room in memory."""
    try:
        status = os.statvfs(folder)
    except FileNotFoundError:
        return well(SHARED_MEMORY, "not on this system; Ray does without")
    free = status.f_bavail * status.f_frsize
    if free >= GOOD_SHARED_MEMORY:
        return well(SHARED_MEMORY, "space enough")
    return warning(
        SHARED_MEMORY,
        f"{free // MIB} MiB free: what does not fit goes to the temporary folder, which is slow",
        f"remove files of yours in {folder}; in a container: --shm-size=2g; else ask your site for a larger one",
    )


def _check_kind(path: Path, mounts: str) -> list[HostFinding]:
    kind = mount_type(path.resolve(), mounts)
    if kind in NETWORK_TYPES:
        return [
            problem(
                TEMPORARY,
                f"{path} is on a network file system ({kind}), on which Ray's sockets do not work",
                "export TMPDIR to a folder on each host's own disk, such as /tmp",
            )
        ]
    try:
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(b"muster")
    except OSError as error:
        remedy = "export TMPDIR to a folder that you can write to on every host, such as /tmp"
        return [problem(TEMPORARY, f"{path} cannot be written to: {error.strerror}", remedy)]
    return _check_space(path)


def _check_space(path: Path) -> list[HostFinding]:
    status = os.statvfs(path)
    free = status.f_bavail * status.f_frsize
    if free >= GOOD_SPACE:
        return []
    message, remedy = f"{free // MIB} MiB free in {path}", "remove old files, or export TMPDIR to a larger disk"
    judge = warning if free >= LEAST_SPACE else problem
    return [judge(TEMPORARY, f"{message}; Ray's logs and spilled objects need {GOOD_SPACE // GIB} GiB", remedy)]
