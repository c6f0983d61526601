"""What a list of runs says of each beside its state: simulator, algorithm, and how long it has trained.

Only as much is read as that takes, whatever the size of a run; nothing that cannot be read is an error.
"""

from __future__ import annotations

import os
import tomllib
from contextlib import suppress
from dataclasses import dataclass

from muster.files.regular import open_regular, read_text
from muster.files.shown import short_name
from muster.runs.folder import RunFolder
from muster.runs.metrics import TIME_COLUMNS
from muster.runs.numbers import finite

_LARGEST_EXPERIMENT = 1024**2
_TAIL_BYTES = 4096


@dataclass(frozen=True)
class RunSummary:
    """Of one run; None for what is not known."""

    simulator: str | None = None
    algorithm: str | None = None
    seconds: float | None = None


def summarize(folder: RunFolder) -> RunSummary:
    """Return the summary of a run."""
    table: dict[str, object] = {}
    with suppress(OSError, ValueError, RecursionError):
        table = tomllib.loads(read_text(folder.experiment, _LARGEST_EXPERIMENT))
    env, algorithm = table.get("env"), table.get("algorithm")
    identifier = env.get("id") if isinstance(env, dict) else None
    name = algorithm.get("name") if isinstance(algorithm, dict) else None
    return RunSummary(
        short_name(identifier) if isinstance(identifier, str) else None,
        name if isinstance(name, str) else None,
        _training_seconds(folder),
    )


def short_simulator(identifier: str) -> str:
    """Return a simulator's own name, without the file or module it is in."""
    return identifier.rpartition(":")[2]


def _training_seconds(folder: RunFolder) -> float | None:
    """Return the time in the last whole row of the metrics: the columns of time are the last ones."""
    try:
        with os.fdopen(open_regular(folder.metrics), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _TAIL_BYTES))
            text = file.read(_TAIL_BYTES).decode("utf-8", "replace")
        lines = text[: text.rindex("\n")].splitlines()
        return finite(lines[-1].split(",")[-len(TIME_COLUMNS)])
    except (OSError, ValueError, IndexError):
        return None
