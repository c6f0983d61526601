"""What the list shows of a run, read from as little of its folder as that takes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

from muster.errors import InputError
from muster.jobs.folder import JobFolder
from muster.jobs.states import node_hours
from muster.runs.folder import RunFolder
from muster.runs.metrics import read_sampled_metrics
from muster.runs.reading import printable, read_state
from muster.runs.status import Status
from muster.runs.summary import RunSummary, summarize

SPARK_POINTS = 40
_PIECE = 1024
"""Bytes that are read of the metrics at each point; a row is a few hundred."""

_WITHOUT_METRICS = ("starting", "queued", "running")
"""States in which a run may not have done an iteration."""

Signature = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True)
class RunRow:
    """One run of the list."""

    name: str
    status: Status
    summary: RunSummary
    returns: tuple[float, ...]
    """Mean returns over the whole run, few enough to draw them in a table's cell."""
    node_hours: float | None
    problems: tuple[str, ...]

    @property
    def state(self) -> str:
        """The state as a person should see it now."""
        return self.status.shown_state


def signature(paths: tuple[Path, ...]) -> Signature:
    """Return what is different when any of these files is: its number, size and time of change."""
    found: list[tuple[int, int, int] | None] = []
    for path in paths:
        try:
            seen = path.stat()
        except (OSError, ValueError):
            found.append(None)
        else:
            found.append((seen.st_ino, seen.st_size, seen.st_mtime_ns))
    return tuple(found)


def row_files(folder: RunFolder) -> tuple[Path, ...]:
    """Return the files on which a row depends."""
    return folder.status, folder.metrics, folder.experiment, JobFolder(folder.path).record


def read_row(folder: RunFolder, name: str, before: RunRow | None = None) -> RunRow:
    """Read a row; of a run that has only shown that it lives, nothing but its status."""
    record = read_state(folder)
    if before is not None and replace(before.status, updated=0.0) == replace(record.status, updated=0.0):
        return replace(before, status=record.status)
    problems = list(record.problems)
    returns: list[float] = []
    try:
        returns = read_sampled_metrics(folder.metrics, SPARK_POINTS, _PIECE).numbers("return/mean")
    except FileNotFoundError:
        if record.status.state not in _WITHOUT_METRICS:
            problems.append(f"{folder.metrics.name}: missing")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        problems.append(printable(f"{folder.metrics.name}: {reason or error}"))
    summary = summarize(folder)
    if summary.simulator is None:
        problems.append(f"{folder.experiment.name}: cannot be read")
    return RunRow(
        name, record.status, summary, _thinned(returns), _hours(folder, record.status, summary), (*problems,)
    )


def unreadable_row(name: str, error: Exception) -> RunRow:
    """Return the row of a run that cannot be read."""
    return RunRow(name, Status("unknown"), RunSummary(), (), None, (printable(f"cannot be shown: {error!r}"),))


def _thinned(values: list[float]) -> tuple[float, ...]:
    count = len(values)
    if count <= SPARK_POINTS:
        return tuple(values)
    return tuple(values[math.ceil((at + 1) * count / SPARK_POINTS) - 1] for at in range(SPARK_POINTS))


def _hours(folder: RunFolder, status: Status, summary: RunSummary) -> float | None:
    """Return the node-hours of a run's jobs; of one without jobs, its hours of training on one host."""
    job = JobFolder(folder.path)
    if job.exists():
        try:
            return node_hours(job.links(), job.order(), status)
        except InputError:
            return None
    return None if summary.seconds is None else summary.seconds / 3600
