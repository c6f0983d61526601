"""The state of a run in `status.json`, with a heartbeat that tells a living run from a lost one."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import threading
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from muster.errors import StorageError
from muster.files.regular import read_bytes
from muster.runs.files import explained, write_json

HEARTBEAT_SECONDS = 10.0
LOST_AFTER_SECONDS = 60.0
LIVE_STATES = ("starting", "running", "saving")
STATES = (*LIVE_STATES, "queued", "stopped", "finished", "failed", "cancelled", "lost", "unknown")
_LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Status:
    """What `status.json` says; the names are part of the contract."""

    state: str
    reason: str = ""
    run: str = ""
    iteration: int = 0
    steps: int = 0
    return_mean: float | None = None
    updated: float = 0.0
    host: str = ""
    pid: int = 0
    scheduler: str | None = None
    job_id: str | None = None
    link: int | None = None
    exit_code: int | None = None
    launch: str | None = None
    """The launch whose Ray it trains on."""

    @property
    def shown_state(self) -> str:
        """The state as a person should see it: `lost` if a live run's heartbeat has stopped."""
        if self.state in LIVE_STATES and not heartbeat_is_fresh(self):
            return "lost"
        return self.state


def heartbeat_is_fresh(status: Status) -> bool:
    """Whether the run was alive a moment ago; clocks of hosts may differ by as much."""
    return status.state in LIVE_STATES and abs(time.time() - status.updated) < LOST_AFTER_SECONDS


def read_status(path: Path) -> Status | None:
    """Return the status of a run, or None if it has none that can be read."""
    try:
        return parse_status(read_bytes(path))[0]
    except (OSError, ValueError):
        return None


def parse_status(content: bytes) -> tuple[Status, list[str]]:
    """Return the status that a file's content says, and what is wrong with it; wrong values are left out.

    Raises:
        ValueError: if it is no status at all.
    """
    try:
        values = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ValueError("not valid JSON") from None
    if not isinstance(values, dict):
        raise ValueError(f"expected a table of values, found {_short(values)}")
    good: dict[str, Any] = {}
    problems = []
    for name, field in Status.__dataclass_fields__.items():
        if name in values and _fits(values[name], str(field.type)):
            good[name] = values[name]
        elif name in values:
            problems.append(f"{name}: expected {field.type}, found {_short(values[name])}")
    if good.get("state") not in STATES:
        problems.append(f"state: expected one of {', '.join(STATES)}, found {_short(values.get('state'))}")
        good["state"] = "unknown"
    return Status(**good), problems


def rewrite_status(path: Path, **changes: Any) -> None:
    """Change the status of a run that no process writes to now."""
    status = read_status(path) or Status("unknown", run=path.parent.name)
    with explained(path):
        write_json(path, asdict(replace(status, updated=time.time(), **changes)))


def _fits(value: object, expected: str) -> bool:
    """Whether a value is of a field's type, and if a number, finite and of 64 bits."""
    if value is None:
        return expected.endswith("None")
    if expected.startswith("str"):
        return isinstance(value, str)
    kinds = (int, float) if expected.startswith("float") else (int,)
    if not isinstance(value, kinds) or isinstance(value, bool):
        return False
    return math.isfinite(value) if isinstance(value, float) else abs(value) <= _LARGEST


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


class StatusFile:
    """Writes the status at each change, and every few seconds so that all can see that the run lives."""

    def __init__(self, path: Path, run: str) -> None:
        self._path = path
        self._status = Status("starting", run=run, host=socket.gethostname(), pid=os.getpid())
        self._changing = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self.update()
        self._thread.start()

    @property
    def status(self) -> Status:
        """The status as it was last written."""
        return self._status

    def update(self, **changes: Any) -> None:
        """Change some of the values and write the file."""
        with self._changing, explained(self._path):
            self._status = replace(self._status, updated=time.time(), **changes)
            write_json(self._path, asdict(self._status), durable=False)

    def close(self, **changes: Any) -> None:
        """Write the last status and end the heartbeat."""
        self._ended.set()
        self._thread.join()
        self.update(**changes)

    def _beat(self) -> None:
        # So that signals go to the main thread, which may keep them waiting.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2})
        while not self._ended.wait(HEARTBEAT_SECONDS):
            try:
                self.update()
            except StorageError:
                continue
