"""What a running job consists of on its hosts: one session of processes, or ranks on several hosts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.fakes.core import Site

POLL_SECONDS = 0.05
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGHUP)


def session_members(session: int) -> list[int]:
    """The processes of a session, but those that only wait to be reaped."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                state, _, _, own = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(own) == session and state != "Z":
                    found.append(int(entry.name))
    return found


class Session:
    """A program and all that it starts, except what leaves for a session of its own."""

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        self._process = subprocess.Popen(command, start_new_session=True, **options)

    def code(self) -> int | None:
        """The program's exit code, or minus its signal; None while it runs."""
        return self._process.poll()

    def is_over(self) -> bool:
        """Whether nothing of it runs any more."""
        return self.code() is not None and not session_members(self._process.pid)

    def send(self, number: int) -> None:
        """Signal every process of it."""
        for pid in session_members(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, number)


class Ranks:
    """One process of a launcher on each of several hosts, started by ssh where a host is not this machine."""

    def __init__(self, *, ends_together: bool = True) -> None:
        self._processes: list[subprocess.Popen[str]] = []
        self._ends_together = ends_together
        self._first_failure: int | None = None

    def start(
        self,
        site: Site,
        host: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: str,
        **streams: Any,
    ) -> None:
        """Start one more rank."""
        words = site.reach(host, site.command("rank"))
        process = subprocess.Popen(words, stdin=subprocess.PIPE, text=True, start_new_session=True, **streams)
        order = {"command": list(command), "environment": dict(environment), "folder": folder}
        self._processes.append(process)
        self._write(process, json.dumps(order))

    def code(self) -> int | None:
        """The exit code of the first rank that failed, 0 if none has; None while one runs."""
        codes = [process.poll() for process in self._processes]
        failed = next((code for code in codes if code), None)
        if failed is not None and self._first_failure is None:
            self._first_failure = failed
            if self._ends_together:
                self.send(signal.SIGKILL)
        return (self._first_failure or 0) if None not in codes else None

    def is_over(self) -> bool:
        """Whether all ranks have ended."""
        return self.code() is not None

    def send(self, number: int) -> None:
        """Signal all ranks."""
        for process in self._processes:
            if process.poll() is None:
                self._write(process, signal.Signals(number).name)

    def wait(self) -> int:
        """Wait for all, passing on the signals that come here; return the exit code."""

        def forward(number: int, frame: FrameType | None) -> None:
            self.send(number)

        for number in FORWARDED:
            signal.signal(number, forward)
        while (code := self.code()) is None:
            time.sleep(POLL_SECONDS)
        return code

    def _write(self, process: subprocess.Popen[str], line: str) -> None:
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write(f"{line}\n")
            process.stdin.flush()


def serve_rank() -> int:
    """Be a rank on its host: start what standard input says, then signal it as standard input says.

    The end of the input is the launcher's end, and so the rank's.
    """
    order = json.loads(sys.stdin.readline())
    try:
        work = Session(order["command"], env=order["environment"], cwd=order["folder"], stdin=subprocess.DEVNULL)
    except OSError as error:
        print(f"{order['command'][0]}: {error.strerror}", file=sys.stderr)
        return 127
    threading.Thread(target=_obey, args=(sys.stdin, work), daemon=True).start()
    while (code := work.code()) is None:
        time.sleep(POLL_SECONDS)
    work.send(signal.SIGKILL)
    return code if code >= 0 else 128 - code


def _obey(orders: IO[str], work: Session) -> None:
    for line in orders:
        work.send(signal.Signals[line.strip()])
    work.send(signal.SIGKILL)
