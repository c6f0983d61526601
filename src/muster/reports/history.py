"""All that a run folder records, for its report; what is missing or damaged is named and raises no error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.clusters.launching.timeline import TIMELINE
from muster.errors import InputError
from muster.files.regular import is_folder, is_there, read_bytes
from muster.jobs.folder import JobFolder, Link, Order
from muster.runs.files import read_json_lines
from muster.runs.folder import RunFolder
from muster.runs.metrics import MetricsTable
from muster.runs.numbers import finite, parse_json
from muster.runs.reading import RunRecord, read_run

LAUNCHES = "launches"
MOST_FAILURES = 200
"""Of the files of failures, so many are read: a simulator may fail thousands of times."""
_LARGEST_FAILURE = 4 * 1024**2


@dataclass(frozen=True)
class Launch:
    """The bring-up of one cluster: what happened on its hosts, in order of time."""

    name: str
    events: list[dict[str, Any]]


@dataclass
class RunHistory:
    """What a run folder says of the whole run."""

    record: RunRecord
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    failures: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By the names of their files; the first of them."""
    failure_count: int = 0
    launches: list[Launch] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    order: Order | None = None
    usage: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What each host of each link used, by the names of its files: `LINK-HOST-PID`."""
    versions: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    _columns: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    def column(self, name: str) -> NDArray[np.float64]:
        """Return a number for every row of the metrics; NaN where there is none."""
        if not self._columns:
            self._columns = _all_columns(self.record.rows)
        if name not in self._columns:
            self._columns[name] = np.array(self.record.rows.values(name), np.float64)
        return self._columns[name]

    @property
    def folder(self) -> RunFolder:
        """The run's folder."""
        return self.record.folder


def read_history(folder: RunFolder) -> RunHistory:
    """Read all that a run folder records; nothing that it names is imported."""
    record = read_run(folder)
    history = RunHistory(record, problems=list(record.problems))
    if not is_there(folder.metrics):
        history.problems.append(f"{folder.metrics.name}: missing, so there are no curves")
    history.evaluations = _lines(folder.evaluations, history)
    history.events = _lines(folder.events, history)
    history.versions = _table(folder.versions, history)
    history.sources = _table(folder.sources, history)
    _read_failures(folder, history)
    _read_jobs(folder, history)
    history.launches = _launches(record)
    return history


def _all_columns(rows: MetricsTable) -> dict[str, NDArray[np.float64]]:
    """Return all columns, which takes little longer than one; none if a cell is damaged."""
    numbers = rows.all_numbers()
    if not numbers:
        return {}
    table = np.array(numbers, np.float64).reshape(-1, len(rows.columns))
    table[~np.isfinite(table)] = np.nan
    return dict(zip(rows.columns, np.ascontiguousarray(table.T), strict=True))


def _lines(path: Path, history: RunHistory) -> list[dict[str, Any]]:
    try:
        lines = read_json_lines(path)
    except OSError as error:
        problem = f"{path.name}: {error.strerror or error}"
        if problem not in history.problems:
            history.problems.append(problem)
        return []
    if not lines and is_there(path) and path.stat().st_size:
        history.problems.append(f"{path.name}: no line of it can be read")
    return lines


def _table(path: Path, history: RunHistory) -> dict[str, Any]:
    try:
        found = json.loads(read_bytes(path))
        if isinstance(found, dict):
            return found
        reason = "not a table of values"
    except FileNotFoundError:
        reason = "missing"
    except OSError as error:
        reason = error.strerror or str(error)
    except (ValueError, RecursionError):
        reason = "not valid JSON"
    history.problems.append(f"{path.name}: {reason}")
    return {}


def with_metrics(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """Return an evaluation with the experiment's own metrics beside its other values, as `metrics/NAME`."""
    own = evaluation.get("metrics")
    if not isinstance(own, dict):
        return dict(evaluation)
    others = {key: value for key, value in evaluation.items() if key != "metrics"}
    return others | {f"metrics/{name}": value for name, value in own.items()}


def _read_failures(folder: RunFolder, history: RunHistory) -> None:
    paths = _entries(folder.failures, "*.json")
    history.failure_count = len(paths)
    for path in paths[:MOST_FAILURES]:
        try:
            found = json.loads(read_bytes(path, _LARGEST_FAILURE))
        except (OSError, ValueError, RecursionError):
            found = None
        history.failures[path.name] = found if isinstance(found, dict) else {"error": "this file cannot be read"}


def _read_jobs(folder: RunFolder, history: RunHistory) -> None:
    job = JobFolder(folder.path)
    if not job.exists():
        return
    history.links = job.links()
    try:
        history.order = job.order()
    except InputError as error:
        history.problems.append(str(error).partition("\n")[0])
    for path in _entries(job.folder / "usage", "*.json"):
        try:
            used = parse_json(read_bytes(path, _LARGEST_FAILURE))
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(used, dict):
            history.usage[path.stem] = used


def _launches(record: RunRecord) -> list[Launch]:
    """Return the launches of the run's jobs, and the one it was started in by hand, the oldest first."""
    folder, name = record.folder.path, record.status.launch
    paths = _entries(folder / LAUNCHES, f"*/{TIMELINE}")
    if name and "/" not in name:
        paths += [parent / LAUNCHES / name / TIMELINE for parent in (folder.parent, folder.parent.parent)]
    found = []
    for path in paths:
        try:
            events = [event for event in read_json_lines(path) if finite(event.get("time")) is not None]
        except OSError:
            continue
        if events:
            found.append(Launch(path.parent.name, sorted(events, key=lambda event: float(event["time"]))))
    return sorted(found, key=lambda launch: float(launch.events[0]["time"]))


def _entries(folder: Path, pattern: str) -> list[Path]:
    try:
        return sorted(folder.glob(pattern)) if is_folder(folder) else []
    except OSError:
        return []
