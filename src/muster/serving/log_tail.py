"""The end of what a run's newest job has printed."""

from __future__ import annotations

import os
import re
from pathlib import Path

from muster.files.regular import open_regular
from muster.jobs.folder import JobFolder
from muster.runs.reading import printable

MOST_BYTES = 32_768
MOST_LINES = 200
_COLORS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
NO_LOG = "No log: a run that was not submitted prints to its own terminal."


def log_file(run: Path) -> Path | None:
    """Return the output of a run's newest job; a link that leads out of the run's folder is none."""
    outputs = JobFolder(run).outputs() if JobFolder(run).exists() else []
    inside = (path for path in reversed(outputs) if path.resolve().is_relative_to(run.resolve()))
    return next(inside, None)


def log_tail(path: Path | None) -> str:
    """Return the last lines of a log as plain text."""
    if path is None:
        return NO_LOG
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - MOST_BYTES))
            text = file.read(MOST_BYTES).decode("utf-8", "replace")
    except OSError as error:
        return f"{path.name}: {error.strerror or error}"
    lines = _COLORS.sub("", text).replace("\r\n", "\n").split("\n")
    if size > MOST_BYTES:
        lines = lines[1:]
    # Of a line that was written over again and again, as a progress bar is, the last is left.
    shown = [printable(line.rstrip("\r").rpartition("\r")[2].expandtabs(4)) for line in lines[-MOST_LINES - 1 :]]
    return "\n".join(shown).rstrip("\n") or "The log is empty."
