"""The guard of a run's own Ray: ends Ray's processes and removes its folder when the run's process has ended.

Run as a script, with the standard library alone. The run holds the other end of a pipe and writes the id of each
session that it starts for Ray, one a line. However the run's process ends (normally, by a signal, by kill -9), the
pipe closes, and every process of these sessions is killed.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

POLL_SECONDS = 0.5
KILL_SECONDS = 0.02
GIVE_UP_SECONDS = 10.0
PROC = Path("/proc")
"""Where Linux shows its processes."""


def main() -> None:
    """Wait for the end of the process that started this one, then clean up."""
    pipe, folder = int(sys.argv[1]), sys.argv[2]
    sessions = _read_until_the_end(pipe)
    deadline = time.monotonic() + GIVE_UP_SECONDS
    with suppress(OSError):
        while _kill(sessions) and time.monotonic() < deadline:
            time.sleep(KILL_SECONDS)
    shutil.rmtree(folder, ignore_errors=True)


def _read_until_the_end(pipe: int) -> set[int]:
    """Return the sessions; a fork of the run's process may keep the pipe open, so its id is watched as well."""
    parent, received = os.getppid(), b""
    while os.getppid() == parent:
        if select.select([pipe], [], [], POLL_SECONDS)[0]:
            part = os.read(pipe, 4096)
            received += part
            if not part:
                break
    return {int(line) for line in received.split()}


def _kill(sessions: set[int]) -> bool:
    """Kill what is left of the sessions; return whether anything was."""
    left = [pid for pid in living() if session_of(pid) in sessions]
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return bool(left)


def living() -> list[int]:
    """Return all processes but those that have ended and wait to be collected.

    Raises:
        OSError: if there is no way to list them.
    """
    if not (PROC / "self/stat").exists():
        return _living_by_ps()
    found = []
    for entry in PROC.iterdir():
        with suppress(OSError, IndexError):
            if entry.name.isdigit() and (entry / "stat").read_bytes().rpartition(b")")[2].split()[0] not in b"ZX":
                found.append(int(entry.name))
    return found


def _living_by_ps() -> list[int]:
    command = ["ps", "-A", "-o", "pid=,stat="]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    lines = [line.split() for line in done.stdout.splitlines()]
    if not lines:
        raise OSError(f"ps failed with code {done.returncode}")
    return [int(line[0]) for line in lines if not line[1].startswith(b"Z")]


def session_of(pid: int) -> int | None:
    """Return the session of a process; None if it has ended."""
    try:
        return os.getsid(pid)
    except OSError:
        return None


if __name__ == "__main__":
    main()
