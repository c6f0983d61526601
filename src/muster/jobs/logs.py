"""Following the output of a run's jobs, and the logs of Ray on its hosts."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from muster.errors import InputError
from muster.files.regular import open_regular
from muster.jobs.folder import JobFolder, by_age
from muster.jobs.states import live_jobs, read_states
from muster.runs.reading import printable

POLL_SECONDS = 0.5
ASK_SECONDS = 30.0
"""How often the scheduler is asked whether a job that does not report is still alive."""
_CHUNK = 65_536
_CONTROL = re.compile(rb"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]|\xc2[\x80-\x9f]")
"""What may control a terminal: all but colours, tabs and ends of lines."""


def follow(files: Callable[[], list[Path]], is_over: Callable[[], bool]) -> Iterator[bytes]:
    """Give what is in files, in their order, and what is added to them, until it is over and all is read."""
    offsets: dict[Path, int] = {}
    while True:
        over = is_over()
        for path in files():
            with suppress(OSError), os.fdopen(open_regular(path), "rb") as file:
                file.seek(offsets.get(path, 0))
                while chunk := file.read(_CHUNK):
                    offsets[path] = offsets.get(path, 0) + len(chunk)
                    yield chunk
        if over:
            return
        time.sleep(POLL_SECONDS)


def harmless(output: bytes) -> bytes:
    """Replace what would do more to a terminal than show text."""
    return _CONTROL.sub("\ufffd".encode(), output)


class Ending:
    """Whether a run has ended, without asking the scheduler all the time."""

    def __init__(self, job: JobFolder) -> None:
        self._job = job
        self._asked = time.monotonic()

    def __call__(self) -> bool:
        last = self._job.last_link()
        if not live_jobs(self._job) or (self._job.is_cancelled() and (last is None or last.ended is not None)):
            return True
        if time.monotonic() - self._asked < ASK_SECONDS:
            return False
        self._asked = time.monotonic()
        [state] = read_states([self._job])
        return state.state in ("finished", "failed", "cancelled", "lost")


def host_logs(job: JobFolder, host: str) -> list[Path]:
    """Return the logs of Ray on a host, one for each launch.

    Raises:
        InputError: naming the hosts that have any.
    """
    found = by_age(job.path.glob("launches/*/logs/*.log"))
    logs = [path for path in found if path.stem in (host, host.partition(".")[0])]
    if not logs:
        hosts = sorted({path.stem for path in found})
        raise InputError(
            f"--host {host}: no log of it\n"
            f"    hosts of {job.path.name}: {printable(', '.join(hosts)) or 'none yet'}"
        )
    return logs
