"""One writer per run folder: a lock that ends with its process, however that ends."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
from pathlib import Path
from types import TracebackType
from typing import Any

from muster.errors import RunLockedError
from muster.runs.status import heartbeat_is_fresh, read_status


class RunLock:
    """Holds a run folder for this process; the file names host and pid for people.

    The kernel releases the lock when its process dies, on this host and on file systems that lock across
    hosts. Where they do not, a fresh heartbeat of another host counts as its lock.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: Any = None

    def __enter__(self) -> RunLock:
        self._file = self._path.open("a+", encoding="utf-8")
        holder = self._holder()
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._refuse(holder)
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
                raise
        status = read_status(self._path.with_name("status.json"))
        if holder and holder.get("host") != socket.gethostname() and status and heartbeat_is_fresh(status):
            self._refuse(holder)
        self._file.truncate(0)
        self._file.write(json.dumps({"host": socket.gethostname(), "pid": os.getpid()}) + "\n")
        self._file.flush()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.truncate(0)
        self._file.close()

    def _holder(self) -> dict[str, Any]:
        self._file.seek(0)
        try:
            holder: dict[str, Any] = json.loads(self._file.read())
        except json.JSONDecodeError:
            return {}
        return holder

    def _refuse(self, holder: dict[str, Any]) -> None:
        self._file.close()
        raise RunLockedError(
            f"{self._path.parent}: another process writes to this run: "
            f"pid {holder.get('pid', 'unknown')} on {holder.get('host', 'unknown')}\n"
            "    wait until it ends, stop it, or take another --name"
        )
