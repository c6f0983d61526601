"""What happened on each host while Ray came up, with times: on screen and in `bring-up.jsonl`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from muster.runs.files import append_json_line, read_json_lines

TIMELINE = "bring-up.jsonl"


class Timeline:
    """Appends to this host's own file; the head joins them all at the end."""

    def __init__(self, folder: Path, host: str, *, on_screen: bool) -> None:
        self.events: list[dict[str, Any]] = []
        self._folder = folder
        self._host = host
        self._path = folder / f".{host}.{TIMELINE}"
        self._on_screen = on_screen
        self._started = time.monotonic()

    def add(self, event: str, **details: Any) -> None:
        """Record an event, and show it on the head's screen."""
        self.events.append({"time": time.time(), "host": self._host, "event": event, **details})
        append_json_line(self._path, self.events[-1])
        if self._on_screen:
            text = ", ".join(f"{key} {' '.join(str(value).split())}" for key, value in details.items())
            elapsed = time.monotonic() - self._started
            print(f"launch {elapsed:5.1f} s  {event}{': ' + text if text else ''}", file=sys.stderr, flush=True)

    def join(self, told: Iterable[dict[str, Any]]) -> None:
        """Write the events of all hosts into one file, in order of time: their files', and those told."""
        parts = sorted(self._folder.glob(f".*.{TIMELINE}"))
        events = [*told, *(event for path in parts for event in read_json_lines(path))]
        lines = {json.dumps(event): event["time"] for event in events}
        with (self._folder / TIMELINE).open("a", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in sorted(lines, key=lambda line: lines[line]))
        for path in parts:
            path.unlink(missing_ok=True)
