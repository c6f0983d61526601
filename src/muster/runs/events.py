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
            number = sum(1 for _ in self._folder.failures.glob("*.json")) + 1
            name = f"{number:04d}.json"
            file = self._folder.failures / name
            write_json(file, details)
        self.add("simulator failed", file=f"failures/{name}", error=details["error"])
        return file
