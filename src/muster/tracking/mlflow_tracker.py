"""MLflow: a server, or a database file, that its own variables or `--at` name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

from muster.errors import TrackerError
from muster.tracking.points import Point, TrackedRun
from muster.tracking.tracker import Known

IDENTITY = "muster.identity"
MOST_METRICS, MOST_PARAMETERS, LONGEST_PARAMETER = 1000, 100, 500
"""What MLflow takes in one request."""
_VARIABLES = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
"""Unless they are set. Its own number of retries takes minutes; `--watch` tries again anyway."""
_STATES = {"running": "RUNNING", "finished": "FINISHED", "failed": "FAILED", "stopped": "KILLED"}


class MlflowTracker:
    """A run of an MLflow experiment."""

    def __init__(self, project: str, at: str | None) -> None:
        self._project = project
        for name, value in _VARIABLES.items():
            os.environ.setdefault(name, value)
        with _explained("cannot be opened"):
            self._client = MlflowClient(at)
        self._run = ""

    def begin(self, run: TrackedRun) -> str:
        """Find the run by its tag, or make it."""
        with _explained("cannot be reached, or refused to begin a run"):
            found = self._client.get_experiment_by_name(self._project)
            experiment = found.experiment_id if found else self._client.create_experiment(self._project)
            known = self._client.search_runs([experiment], f"tags.`{IDENTITY}` = '{run.identity}'", max_results=1)
            if known:
                self._run = known[0].info.run_id
                self._client.update_run(self._run, status="RUNNING")
            else:
                tags = {**run.tags, IDENTITY: run.identity}
                made = self._client.create_run(
                    experiment, start_time=_milliseconds(run.started), tags=tags, run_name=run.name
                )
                self._run = made.info.run_id
            if not known or not known[0].data.params:
                parameters = (Param(key, value[:LONGEST_PARAMETER]) for key, value in run.settings.items())
                while some := list(islice(parameters, MOST_PARAMETERS)):
                    self._client.log_batch(self._run, params=some)
        return f"experiment {self._project}, run {self._run} at {self._client.tracking_uri}"

    def known(self) -> Known:
        """Return the histories of all metrics."""
        with _explained("cannot be asked what it has"):
            names = self._client.get_run(self._run).data.metrics
            histories = {name: self._client.get_metric_history(self._run, name) for name in names}
        return {name: {one.step: one.value for one in history} for name, history in histories.items()}

    def send(self, points: Sequence[Point]) -> None:
        """Store points; those of a request are stored together or not at all."""
        for some in _requests(points):
            with _explained("refused metrics, or cannot be reached"):
                self._client.log_batch(self._run, metrics=some)

    def end(self, state: str) -> None:
        """Set the state of the run."""
        with _explained("cannot be reached"):
            if state != "running":
                self._client.set_terminated(self._run, _STATES[state])


def _requests(points: Sequence[Point]) -> Iterator[list[Metric]]:
    """Yield metrics in as many requests as are needed, those of a point in one, if they fit."""
    waiting: list[Metric] = []
    for point in points:
        time = _milliseconds(point.seconds)
        metrics = [Metric(name, value, time, point.step) for name, value in point.values.items()]
        if len(waiting) + len(metrics) > MOST_METRICS and waiting:
            yield waiting
            waiting = []
        waiting += metrics
        while len(waiting) > MOST_METRICS:
            yield waiting[:MOST_METRICS]
            waiting = waiting[MOST_METRICS:]
    if waiting:
        yield waiting


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        yield
    # SQLAlchemy's own errors come through, which is not installed where MLflow only asks servers.
    except Exception as error:
        raise TrackerError(f"MLflow {what}: {_short(error)}\n    look at --at, or MLFLOW_TRACKING_URI") from error


def _short(error: Any) -> str:
    return str(error).strip().partition("\n")[0][:300]
