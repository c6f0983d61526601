"""The launcher's side of the keeper: start it, ask it, hear of exits, and take its place if it is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from muster.clusters.launching import keeper_process
from muster.clusters.launching.signals import come_on_standard_input
from muster.errors import KeeperLostError

END_SECONDS = 8.0


class Keeper:
    """The keeper of this host, as its launcher sees it.

    Each outlives the other: the keeper sees the launcher's end of a pipe close, and what a killed keeper had
    started becomes the launcher's children, if that adopts orphans.
    """

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        their_requests, self._requests = os.pipe()
        self._answers, their_answers = os.pipe()
        os.set_blocking(self._answers, False)
        self._folders = list(folders)
        arguments = [str(their_requests), str(their_answers), *map(str, folders)]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", keeper_process.__file__, *arguments],
            stdin=subprocess.DEVNULL if come_on_standard_input() else None,
            pass_fds=(their_requests, their_answers),
        )
        os.close(their_requests)
        os.close(their_answers)
        self._unread = b""
        self._exits: dict[str, dict[str, Any]] = {}

    @property
    def pid(self) -> int:
        """The keeper's process id."""
        return self._process.pid

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path | None = None
    ) -> None:
        """Start a process in a session of its own; with a log, its output goes there."""
        self._ask(
            {
                "start": name,
                "command": list(command),
                "environment": dict(environment),
                "log": str(log) if log else None,
            }
        )

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process and its group."""
        self._ask({"signal": int(number), "name": name})

    def spare(self, folder: Path) -> None:
        """Leave a folder that was given to be removed; for the launcher removes it itself."""
        self._folders.remove(folder)
        with suppress(KeeperLostError):
            self._ask({"spare": str(folder)})

    def keep_logs(self, logs: Path, copies: Path | None) -> None:
        """Have the ends of Ray's logs copied when all has ended, however it ends; with None, not."""
        with suppress(KeeperLostError):
            self._ask({"logs": str(logs), "copies": str(copies) if copies else None})

    def exit_of(self, name: str) -> dict[str, Any] | None:
        """Return how a process exited (`code`, perhaps `error`), or None while it runs.

        Raises:
            KeeperLostError: if the keeper is gone.
        """
        try:
            while received := os.read(self._answers, 65536):
                self._unread += received
            raise _lost()
        except BlockingIOError:
            pass
        *lines, self._unread = self._unread.split(b"\n")
        for answer in map(json.loads, lines):
            if "exited" in answer:
                self._exits[answer["exited"]] = answer
        return self._exits.get(name)

    def end(self) -> None:
        """Have everything ended, and wait until it is."""
        os.close(self._requests)
        try:
            self._process.wait(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.returncode:
            keeper_process.end_descendants()
            for folder in self._folders:
                shutil.rmtree(folder, ignore_errors=True)
        os.close(self._answers)

    def _ask(self, request: dict[str, Any]) -> None:
        unsent = json.dumps(request).encode() + b"\n"
        try:
            while unsent:
                unsent = unsent[os.write(self._requests, unsent) :]
        except BrokenPipeError:
            raise _lost() from None


def _lost() -> KeeperLostError:
    return KeeperLostError(
        "the process that keeps Ray on this host was killed, perhaps for want of memory\n"
        "    look at what the system's log says of it; ask for more memory, or use fewer workers"
    )
