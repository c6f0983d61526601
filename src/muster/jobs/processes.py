"""The processes of a job on this machine, known beyond doubt: a pid is used again after its process has ended.

Only the standard library and modules that import nothing else, for this is imported before a job starts.
"""

from __future__ import annotations

import hashlib
import re
import socket
import subprocess
from dataclasses import dataclass

from muster.clusters.ray_guard import PROC, living, session_of
from muster.environment_variables import LOCAL_JOB_VARIABLE

_ID = re.compile(r"(?P<pid>\d{1,10})-(?P<mark>[0-9a-f]{8})\.(?P<host>[\w-]+)", re.ASCII)
_PS_SECONDS = 10.0


@dataclass(frozen=True)
class JobProcess:
    """The process that leads a job's session; its id is `PID-MARK.HOST`."""

    pid: int
    mark: str
    """Made of the time of its start: no other process of that pid has the same."""
    host: str

    @classmethod
    def of(cls, pid: int) -> JobProcess:
        """Return the job that a living process of this machine leads.

        Raises:
            ProcessLookupError: if there is no such process.
        """
        mark = _mark(pid)
        if mark is None:
            raise ProcessLookupError(f"process {pid} has ended")
        return cls(pid, mark, this_host())

    @classmethod
    def parse(cls, job_id: str) -> JobProcess:
        """Read an id.

        Raises:
            ValueError: if it is none.
        """
        found = _ID.fullmatch(job_id)
        if found is None:
            raise ValueError(f"{job_id} is no job of this scheduler")
        return cls(int(found["pid"]), found["mark"], found["host"])

    def __str__(self) -> str:
        """Write the id."""
        return f"{self.pid}-{self.mark}.{self.host}"

    @property
    def is_here(self) -> bool:
        """Whether it was started on this host."""
        return self.host == this_host()

    def members(self) -> list[int]:
        """Return the living processes of its session; they may outlive the one that leads it.

        Raises:
            OSError: if the processes of this machine cannot be listed.
        """
        mark = _mark(self.pid)
        if mark not in (self.mark, None):
            return []
        found = [pid for pid in living() if session_of(pid) == self.pid]
        if mark is not None:
            return found
        # The session may be that of a later process of the same pid, which has ended too.
        own = f"{LOCAL_JOB_VARIABLE}={self}".encode()
        return [pid for pid in found if own in _environment(pid)]

    def arguments(self) -> list[str]:
        """Return the arguments that its process runs with; none if it has ended."""
        if _has_proc():
            return [word.decode("utf-8", "replace") for word in _read(self.pid, "cmdline").split(b"\0")]
        return _ps(self.pid, "-ww", "-o", "command=").decode("utf-8", "replace").split()


def this_host() -> str:
    """Return this host's name as ids spell it, without the domain, which may change with the network."""
    return re.sub(r"[^A-Za-z0-9-]", "_", socket.gethostname().partition(".")[0]) or "localhost"


def _has_proc() -> bool:
    return (PROC / "self/stat").exists()


def _mark(pid: int) -> str | None:
    """Return what tells a process from all others of the same pid; None if it has ended."""
    start = _start_in_ticks(pid) if _has_proc() else _start_by_ps(pid)
    return None if start is None else hashlib.sha256(start).hexdigest()[:8]


def _start_in_ticks(pid: int) -> bytes | None:
    """Return the boot of this machine and the time since then; the clock may be set meanwhile."""
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    if not fields or fields[0] in b"ZX":
        return None
    return (PROC / "sys/kernel/random/boot_id").read_bytes().strip() + b" " + fields[19]


def _start_by_ps(pid: int) -> bytes | None:
    state, _, start = _ps(pid, "-o", "stat=,lstart=").strip().partition(b" ")
    return None if not state or state.startswith(b"Z") else b" ".join(start.split())


def _environment(pid: int) -> bytes:
    return _read(pid, "environ") if _has_proc() else _ps(pid, "eww", "-o", "command=")


def _read(pid: int, name: str) -> bytes:
    """Return a file of a process; nothing if it has ended, or is another user's."""
    try:
        return (PROC / str(pid) / name).read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


def _ps(pid: int, *options: str) -> bytes:
    """Return what `ps` says of a process; nothing if it has ended."""
    environment = {"PATH": "/bin:/usr/bin", "LC_ALL": "C", "TZ": "UTC"}
    try:
        done = subprocess.run(
            ["ps", *options, "-p", str(pid)],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PS_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"ps did not answer within {_PS_SECONDS:g} s") from None
    if done.returncode and done.stderr.strip():
        raise OSError(f"ps failed: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout
