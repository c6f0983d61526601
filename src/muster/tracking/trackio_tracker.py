"""Trackio: its database on this machine; `trackio sync` takes that to a Space."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime

from trackio.sqlite_storage import SQLiteStorage

from muster.errors import TrackerError
from muster.tracking.points import Point, TrackedRun
from muster.tracking.tracker import Known

_OWN = ("step", "timestamp")
"""What Trackio adds to each row."""


class TrackioTracker:
    """A run of a Trackio project; runs are told apart by their names, so the name ends with the run's identity."""

    def __init__(self, project: str) -> None:
        self._project = project
        self._name = ""
        self._settings: dict[str, str] = {}

    def begin(self, run: TrackedRun) -> str:
        """Name the run; Trackio makes it with its first values."""
        self._name = f"{run.name}-{run.identity[:6]}"
        self._settings = {**run.settings, **run.tags}
        return f"project {self._project}, run {self._name}: trackio show --project {self._project}"

    def known(self) -> Known:
        """Return what the database has of the run."""
        found: Known = {}
        if self._name not in SQLiteStorage.get_runs(self._project):
            return found
        for row in SQLiteStorage.get_logs(self._project, self._name):
            for name, value in row.items():
                if name not in _OWN and isinstance(value, int | float):
                    found.setdefault(name, {})[int(row["step"])] = float(value)
        return found

    def send(self, points: Sequence[Point]) -> None:
        """Store points in one transaction."""
        times = [datetime.fromtimestamp(point.seconds, UTC).isoformat() for point in points]
        values = [dict(point.values) for point in points]
        steps = [point.step for point in points]
        try:
            SQLiteStorage.bulk_log(
                self._project, self._name, values, steps=steps, timestamps=times, config=dict(self._settings)
            )
        except (OSError, sqlite3.Error) as error:
            raise TrackerError(f"Trackio cannot write its database: {error}\n    look at TRACKIO_DIR") from error

    def end(self, state: str) -> None:
        """Do nothing: Trackio keeps no state of runs that are fed so."""
