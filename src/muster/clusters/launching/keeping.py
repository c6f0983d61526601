"""The launcher's side of the keeper: start it, ask it, hear of exits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from muster.clusters.launching import keeper
from muster.clusters.launching.orders import come_on_standard_input

END_SECONDS = 8.0


class KeeperProcess:
    """The keeper of this host, as its launcher sees it."""

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        their_requests, self._requests = os.pipe()
        self._answers, their_answers = os.pipe()
        os.set_blocking(self._answers, False)
        arguments = [str(their_requests), str(their_answers), *map(str, folders)]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", keeper.__file__, *arguments],
            stdin=subprocess.DEVNULL if come_on_standard_input() else None,
            pass_fds=(their_requests, their_answers),
        )
        os.close(their_requests)
        os.close(their_answers)
        self._unread = b""
        self._exits: dict[str, dict[str, Any]] = {}

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
        self._ask({"spare": str(folder)})

    def exit_of(self, name: str) -> dict[str, Any] | None:
        """Return how a process exited (`code`, perhaps `error`), or None while it runs."""
        try:
            while received := os.read(self._answers, 65536):
                self._unread += received
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
        os.close(self._answers)

    def _ask(self, request: dict[str, Any]) -> None:
        os.write(self._requests, json.dumps(request).encode() + b"\n")
