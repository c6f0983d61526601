"""What happened on each host while Ray came up, with times: on screen and in `bring-up.jsonl`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from muster.runs.files import append_json_line, read_json_lines

TIMELINE = "bring-up.jsonl"


class Timeline:
    """Appends to this host's own file; the head joins them all at the end."""

    def __init__(self, folder: Path, host: str, *, on_screen: bool) -> None:
        self._folder = folder
        self._host = host
        self._path = folder / f".{host}.{TIMELINE}"
        self._on_screen = on_screen
        self._started = time.monotonic()

    def add(self, event: str, **details: Any) -> None:
        """Record an event, and show it on the head's screen."""
        append_json_line(self._path, {"time": time.time(), "host": self._host, "event": event, **details})
        if self._on_screen:
            text = ", ".join(f"{key} {' '.join(str(value).split())}" for key, value in details.items())
            elapsed = time.monotonic() - self._started
            print(f"launch {elapsed:5.1f} s  {event}{': ' + text if text else ''}", file=sys.stderr, flush=True)

    def join(self) -> None:
        """Write the events of all hosts into one file, in order of time."""
        parts = sorted(self._folder.glob(f".*.{TIMELINE}"))
        events = sorted(
            (event for path in parts for event in read_json_lines(path)), key=lambda event: event["time"]
        )
        with (self._folder / TIMELINE).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(event) + "\n" for event in events)
        for path in parts:
            path.unlink(missing_ok=True)
