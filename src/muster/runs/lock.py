"""One writer per run folder: a lock that ends with its process, however that ends."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from muster.errors import RunLockedError
from muster.files.ownership import OWN_FILE
from muster.files.regular import is_there, odd_kind, open_regular, read_bytes
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
        if (what := "a link" if self._path.is_symlink() else odd_kind(self._path)) is not None:
            set_aside(self._path, f"is {what}", self._notice)
        if is_there(self._path) and not os.access(self._path, os.R_OK | os.W_OK):
            with suppress(OSError):
                self._path.chmod(OWN_FILE)
        with explained(self._path):
            descriptor = open_regular(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW)
            # Closed by us, and only if it is still ours: see `__exit__`.
            self._file = os.fdopen(descriptor, "a+", encoding="utf-8", errors="replace", closefd=False)
        holder = lock_holder(self._path)
        if not _take(descriptor, fcntl.LOCK_EX):
            self._refuse(holder)
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
            return os.path.samestat(os.fstat(self._file.fileno()), self._path.lstat())
        except OSError:
            return False

    def _close(self) -> None:
        descriptor = self._file.fileno()
        self._file.close()
        os.close(descriptor)

    def _refuse(self, holder: dict[str, Any]) -> None:
        self._close()
        raise _locked(self._path, holder)


@contextmanager
def writers_kept_out(path: Path) -> Iterator[None]:
    """Hold the lock of a run without writing to it, also for a moment only, to see whether another process has it.

    What is no lock, be it a link to one, is held by nobody.

    Raises:
        RunLockedError: if another process writes to the run.
    """
    try:
        descriptor = open_regular(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        yield
        return
    try:
        # A shared lock keeps out whoever wants it alone, and needs no permission to write.
        if not _take(descriptor, fcntl.LOCK_SH):
            raise _locked(path, lock_holder(path))
        yield
    finally:
        os.close(descriptor)


def lock_holder(path: Path) -> dict[str, Any]:
    """Return what a lock says of the process that holds it, or held it last; empty if it says nothing."""
    try:
        holder = json.loads(read_bytes(path, _LARGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    return holder if isinstance(holder, dict) else {}


def _take(descriptor: int, kind: int) -> bool:
    """Whether no other process has the lock, as far as the file system knows; if so, it is ours."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
            raise
    return True


def _locked(path: Path, holder: dict[str, Any]) -> RunLockedError:
    return RunLockedError(
        f"{path.parent}: another process writes to this run: "
        f"pid {holder.get('pid', 'unknown')} on {holder.get('host', 'unknown')}\n"
        "    wait until it ends, stop it, or take another --name"
    )
