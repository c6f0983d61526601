"""Weights & Biases: online, or offline into files that `wandb sync` takes there later."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import wandb
from wandb.proto import wandb_internal_pb2
from wandb.sdk.internal.datastore import DataStore

from muster.errors import InputError, TrackerError
from muster.tracking.points import Point, TrackedRun
from muster.tracking.tracker import Known

STEP = "steps"
"""The metric over which W&B draws the others; its own step only counts rows."""


class WandbTracker:
    """A run of a W&B project; its id is the run's identity, so that it is found again."""

    def __init__(self, project: str, at: str | None) -> None:
        self._project = project
        self._at = at
        self._run: Any = None
        self._rows = 0

    def begin(self, run: TrackedRun) -> str:
        """Resume the run of that id, or make it."""
        settings = _settings(self._at)
        with _explained("cannot be reached, or refused to begin a run"):
            is_offline = wandb.setup(settings).settings.mode == "offline"
            self._run = wandb.init(
                project=self._project,
                id=run.identity,
                name=run.name,
                resume=None if is_offline else "allow",
                reinit="create_new",
                config={**run.settings, **run.tags},
                settings=settings,
            )
            self._run.define_metric("*", step_metric=STEP)
        files = self._folder() / f"offline-run-*-{run.identity}*"
        where = f"wandb sync {files}" if self._run.offline else self._run.url
        return f"project {self._project}, run {run.identity}: {where}"

    def known(self) -> Known:
        """Return the rows that W&B has; offline, those of the files that are here."""
        with _explained("cannot be asked what it has"):
            rows = list(self._rows_here() if self._run.offline else self._rows_there())
        found: Known = {}
        for row in rows:
            step = row.get(STEP)
            for name, value in row.items():
                if isinstance(step, int | float) and isinstance(value, int | float) and not name.startswith("_"):
                    found.setdefault(name, {})[int(step)] = float(value)
        taken = [int(row["_step"]) + 1 for row in rows if isinstance(row.get("_step"), int | float)]
        self._rows = max([self._run.step, *taken])
        return found

    def send(self, points: Sequence[Point]) -> None:
        """Hand points to W&B's own process, which stores them in their order."""
        with _explained("refused a row"):
            for point in points:
                self._run.log({**point.values, STEP: point.step}, step=self._rows)
                self._rows += 1

    def end(self, state: str) -> None:
        """Wait until all is stored, and set the state of the run."""
        with _explained("did not end the run"):
            self._run.finish(exit_code=int(state == "failed"))

    def _folder(self) -> Path:
        return Path(os.path.relpath(Path(self._run.dir).parents[1]))

    def _rows_there(self) -> Iterator[Mapping[str, Any]]:
        if self._run.resumed:
            yield from wandb.Api().run(self._run.path).scan_history()

    def _rows_here(self) -> Iterator[Mapping[str, Any]]:
        for path in sorted(self._folder().glob(f"offline-run-*-{self._run.id}*/*.wandb")):
            yield from _rows_in(path, self._project)


def _settings(at: str | None) -> wandb.Settings:
    server = {} if at is None else {"base_url": at}
    try:
        return wandb.Settings(console="off", silent=True, disable_git=True, x_disable_stats=True, **server)
    except ValueError as error:
        if at is None:
            raise TrackerError(f"W&B refuses its own settings: {' '.join(str(error).split())}") from None
        raise InputError(f"--at {at}: expected the address of a W&B server, https://...") from None


def _rows_in(path: Path, project: str) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a file of W&B's, if it is of a project; what was cut off at its end is left out."""
    store = DataStore()
    with suppress(AssertionError):
        store.open_for_scan(str(path))
        yield from _rows_of(store, project)


def _rows_of(store: DataStore, project: str) -> Iterator[Mapping[str, Any]]:
    while (data := store.scan_data()) is not None:
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        kind = record.WhichOneof("record_type")
        if kind == "run" and record.run.project != project:
            return
        if kind == "history":
            items = record.history.item
            yield {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


@contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        yield
    except (wandb.Error, OSError) as error:
        raise TrackerError(
            f"W&B {what}: {error}\n    log in with `wandb login`, or keep files here: WANDB_MODE=offline"
        ) from error
