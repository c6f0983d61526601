"""What a run folder has for a tracker: a point for each iteration and each evaluation, always the same."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from muster.files.regular import read_bytes
from muster.reports.experiments import flat
from muster.reports.history import RunHistory, read_history, with_metrics
from muster.runs.files import read_json_lines
from muster.runs.folder import RunFolder
from muster.runs.metrics import read_metrics
from muster.runs.numbers import finite
from muster.runs.status import Status, read_status

_ODD = re.compile(r"[^A-Za-z0-9_\-. /]")
"""What not every tracker takes in the name of a metric or a parameter."""
ITERATION, EVALUATION = "iteration", "evaluation/iteration"
"""The metrics that number the two kinds of points."""


_LATEST = 253_402_300_799.0
"""The end of the year 9999."""


@dataclass(frozen=True)
class Point:
    """Values at one step."""

    counter: str
    """Which metric numbers it: `ITERATION` or `EVALUATION`."""
    number: int
    step: int
    seconds: float
    """When it was, in seconds since 1970, by the training time that had passed."""
    values: dict[str, float]


@dataclass(frozen=True)
class TrackedRun:
    """What a tracker is told of a run at the beginning."""

    folder: RunFolder
    name: str
    identity: str
    """The same for every copy of the run folder, and after every resumption."""
    settings: dict[str, str]
    tags: dict[str, str]
    started: float

    def points(self) -> Iterator[Point]:
        """Yield all points that are recorded now, those of the iterations first."""
        times: dict[int, float] = {}
        for row in read_metrics(self.folder.metrics):
            values = _numbers(row)
            seconds = _time(self.started + values.get("time/total", 0.0))
            iteration, steps = int(row["iteration"]), int(row["steps"])
            times[iteration] = seconds
            yield Point(ITERATION, iteration, steps, seconds, values)
        try:
            lines = read_json_lines(self.folder.evaluations)
        except OSError:
            return
        for line in lines:
            number, step = line.get("iteration"), line.get("steps")
            if type(number) is int and type(step) is int:
                values = {f"evaluation/{name}": value for name, value in _numbers(with_metrics(line)).items()}
                yield Point(EVALUATION, number, step, times.get(number, self.started), values)

    def status(self) -> Status:
        """Return how the run is now."""
        return read_status(self.folder.status) or Status("unknown")


def read_tracked_run(folder: RunFolder, name: str) -> TrackedRun:
    """Read what there is to say of a run."""
    history = read_history(folder)
    experiment = history.record.experiment
    versions = {key: str(value) for key, value in history.versions.items() if value is not None}
    return TrackedRun(
        folder,
        name,
        _identity(history),
        {_taken(key): value for key, value in flat(experiment).items()} if experiment is not None else {},
        {f"muster/{_taken(key)}": value for key, value in versions.items()},
        _started(history),
    )


def _started(history: RunHistory) -> float:
    times = [finite(event.get("time")) for event in history.events if event.get("event") == "started"]
    return _time(next((time for time in times if time is not None), history.record.status.updated))


def _time(seconds: float) -> float:
    """Return the nearest time that every tracker takes."""
    return min(max(0.0, seconds), _LATEST)


def _identity(history: RunHistory) -> str:
    """Return a name for the run that no other has: made of when it was started, and of its experiment."""
    events, name = history.events[:1], history.folder.path.resolve().name
    what = repr((name, events[0].get("time"))) if events else name
    try:
        content = b"" if events else read_bytes(history.folder.experiment)
    except OSError:
        content = b""
    return hashlib.sha256(what.encode("utf-8", "replace") + content).hexdigest()[:16]


def _taken(name: str) -> str:
    """Return a name as every tracker takes it."""
    return _ODD.sub("_", name)


def _numbers(cells: Mapping[str, Any]) -> dict[str, float]:
    """Return the values that are numbers, less the steps, by the names that trackers take."""
    found = {_taken(name): finite(value) for name, value in cells.items() if name != "steps"}
    return {name: value for name, value in found.items() if value is not None}


def ending_of(status: Status) -> str:
    """Return how a run is, as trackers distinguish it: running, finished, failed or stopped."""
    state = status.shown_state
    if state in ("finished", "failed"):
        return state
    return "stopped" if state in ("stopped", "cancelled", "lost") else "running"
