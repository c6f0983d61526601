"""One writer per run folder: a lock that ends with its process, however that ends."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from muster.errors import RunLockedError
from muster.files.ownership import OWN_FILE
from muster.files.regular import is_there, odd_kind, open_regular
from muster.runs.files import explained
from muster.runs.repair import set_aside
from muster.runs.status import heartbeat_is_fresh, read_status

POLL_SECONDS = 0.5
_LARGEST = 4096


class RunLock:
    """Holds a run folder for this process; the file names host and pid for people.

    The kernel releases the lock when its process dies, on this host and on file systems that lock across
    hosts. Where they do not, the heartbeat of another host tells whether it lives.
    """

    def __init__(self, path: Path, notice: Callable[[str], None] = lambda _: None) -> None:
        self._path = path
        self._notice = notice
        self._file: Any = None

    def __enter__(self) -> RunLock:
        if (what := odd_kind(self._path)) is not None:
            set_aside(self._path, f"is {what}", self._notice)
        if is_there(self._path) and not os.access(self._path, os.R_OK | os.W_OK):
            with suppress(OSError):
                self._path.chmod(OWN_FILE)
        with explained(self._path):
            descriptor = open_regular(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            # Closed by us, and only if it is still ours: see `__exit__`.
            self._file = os.fdopen(descriptor, "a+", encoding="utf-8", errors="replace", closefd=False)
        holder = self._holder()
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._refuse(holder)
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
                raise
        if holder and holder.get("host") != socket.gethostname():
            self._outwait(holder)
        with explained(self._path):
            self._file.truncate(0)
            self._file.write(json.dumps({"host": socket.gethostname(), "pid": os.getpid()}) + "\n")
            self._file.flush()
        return self

    def _outwait(self, holder: dict[str, Any]) -> None:
        """Wait until a heartbeat of another host is old; one that goes on beating is a living writer."""
        path = self._path.with_name("status.json")
        first = read_status(path)
        told = False
        while (status := read_status(path)) is not None and heartbeat_is_fresh(status):
            if first is not None and status.updated != first.updated:
                self._refuse(holder)
            if not told:
                self._notice(f"waiting up to a minute: {holder.get('host')} may still write to this run")
                told = True
            time.sleep(POLL_SECONDS)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # A simulator may have closed the descriptor, whose number may be another file's by now.
        if self._is_ours():
            self._file.truncate(0)
            self._close()

    def _is_ours(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), self._path.stat())
        except OSError:
            return False

    def _holder(self) -> dict[str, Any]:
        self._file.seek(0)
        try:
            holder: dict[str, Any] = json.loads(self._file.read(_LARGEST))
        except (ValueError, RecursionError):
            return {}
        return holder if isinstance(holder, dict) else {}

    def _close(self) -> None:
        descriptor = self._file.fileno()
        self._file.close()
        os.close(descriptor)

    def _refuse(self, holder: dict[str, Any]) -> None:
        self._close()
        raise RunLockedError(
            f"{self._path.parent}: another process writes to this run: "
            f"pid {holder.get('pid', 'unknown')} on {holder.get('host', 'unknown')}\n"
            "    wait until it ends, stop it, or take another --name"
        )
