"""Watching a run from outside, by the files that it appends to: what a live view shows, without a part in it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from muster.errors import InputError
from muster.experiment.loading import load_saved
from muster.jobs.folder import JobFolder
from muster.jobs.logs import Ending
from muster.jobs.states import live_jobs, read_states
from muster.runs.files import read_json_lines
from muster.runs.folder import RunFolder
from muster.runs.metrics import read_metrics
from muster.runs.reading import printable
from muster.runs.status import LIVE_STATES, Status, read_status
from muster.training.listener import Listener, RunStart
from muster.training.progress import Progress

_WHOLE = ("iteration", "steps", "episodes", "failures/simulator", "failures/worker")

_UNFINISHED = ("queued", "unknown", "lost")
"""States in which a run cannot say itself that its job is gone."""


class Watcher:
    """Tells a listener what a run does, as the run itself would."""

    def __init__(self, folder: RunFolder, listener: Listener) -> None:
        self._folder = folder
        self._listener = listener
        self._job = JobFolder(folder.path)
        self._job_has_ended = Ending(self._job)
        self._started = False
        self._iteration = 0
        self._told = ""
        self.status = Status("unknown")

    def look(self) -> bool:
        """Tell what is new; return whether the run has ended, or is lost."""
        self.status = read_status(self._folder.status) or self.status
        state = self.status.state
        if not self._started and state not in ("queued", "starting", "unknown"):
            self._start()
        elif not self._started and state != self._told:
            self._told = state
            self._listener.noticed(f"{self._folder.name} is {state}")
        if self._started:
            self._tell_rows()
        shown = self.status.shown_state
        if self._job.exists() and shown in _UNFINISHED:
            return self._job_has_ended()
        return shown not in (*LIVE_STATES, "queued", "unknown") and not self._goes_on()

    def how_it_ended(self) -> str:
        """Say how the run ended: by its own status, or by its jobs if it could not write that."""
        state, reason = self.status.shown_state, self.status.reason
        if self._job.exists() and state in _UNFINISHED:
            [found] = read_states([self._job])
            state, reason = found.state, found.reason
        return printable(f"{state}: {reason}" if reason else state)

    def _goes_on(self) -> bool:
        """Whether another job of the chain is to continue it."""
        return self.status.state == "stopped" and self._job.exists() and bool(live_jobs(self._job))

    def _start(self) -> None:
        try:
            experiment = load_saved(self._folder.experiment).experiment
        except InputError:
            return
        resources = experiment.resources
        batch = getattr(experiment.algorithm, "train_batch_size", 0) or 0
        workers = _workers(self._folder)
        simulators = resources.env_groups * resources.envs_per_group
        self._listener.started(RunStart(self._folder.path, experiment, workers, simulators, batch, 0))
        self._started = True

    def _tell_rows(self) -> None:
        try:
            rows = read_metrics(self._folder.metrics)
        except (OSError, ValueError):
            return
        for row in rows:
            values = _numbers(row)
            if not values.get("iteration") or values["iteration"] <= self._iteration:
                continue
            self._iteration = values["iteration"]
            self._listener.iterated(values, _progress(values))


def _workers(folder: RunFolder) -> int:
    """Return the workers that the run started with, as its events say."""
    with suppress(OSError):
        for event in reversed(read_json_lines(folder.events)):
            if event.get("event") == "started" and isinstance(event.get("workers"), int):
                return int(event["workers"])
    return 0


def _numbers(row: dict[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, text in row.items():
        try:
            values[name] = None if text == "" else int(text) if name in _WHOLE else float(text)
        except ValueError:
            values[name] = None
    return values


def _progress(row: dict[str, Any]) -> Progress:
    mean = row.get("return/mean")
    return Progress(
        iteration=row["iteration"],
        steps=row.get("steps") or 0,
        episodes=row.get("episodes") or 0,
        simulator_failures=row.get("failures/simulator") or 0,
        worker_failures=row.get("failures/worker") or 0,
        seconds=row.get("time/total") or 0.0,
        returns=[] if mean is None else [mean],
    )
