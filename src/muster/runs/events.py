"""What happened in a run, with times: `events.jsonl`, and a file for each failure of the simulator."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from muster.runs.files import append_json_line, explained, write_json
from muster.runs.folder import RunFolder


class EventLog:
    """Appends to a run's events."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder

    def add(self, event: str, **details: Any) -> None:
        """Record that something happened."""
        with explained(self._folder.events):
            append_json_line(self._folder.events, {"time": time.time(), "event": event, **details})

    def add_failure(self, details: dict[str, Any]) -> Path:
        """Record a failure of the simulator in a file of its own; return the file."""
        with explained(self._folder.failures):
            self._folder.failures.mkdir(exist_ok=True)
            file = _new_file(self._folder.failures)
            write_json(file, details)
        self.add("simulator failed", file=f"failures/{file.name}", error=details["error"])
        return file


def _new_file(folder: Path) -> Path:
    """Make the next file of a folder; a run and its evaluation may both be at it."""
    number = sum(1 for _ in folder.glob("*.json"))
    while True:
        number += 1
        file = folder / f"{number:04d}.json"
        try:
            file.touch(exist_ok=False)
        except FileExistsError:
            continue
        return file
