"""The trials of a sweep: their values and states, in memory and in `sweep.json`; the runs' own files decide."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from muster.errors import InputError
from muster.experiment.loading import load_saved
from muster.experiment.tables import value_at
from muster.files.regular import read_bytes
from muster.runs.files import explained, write_json
from muster.runs.folder import RunFolder
from muster.runs.metrics import read_metrics
from muster.runs.status import read_status
from muster.sweeps.folder import SweepFolder
from muster.sweeps.space import Values


@dataclass
class Trial:
    """One trial; its states are those of a run."""

    name: str
    values: Values
    state: str = "queued"
    reason: str = ""
    iteration: int = 0
    steps: int = 0
    metric: float | None = None
    exit_code: int | None = None

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do: a stop rule was met, or the scheduler ended it."""
        return self.state in ("finished", "failed") or (self.state == "stopped" and self.exit_code == 0)

    def add(self, row: Mapping[str, Any], metric: str) -> None:
        """Take over a row of the run's metrics."""
        self.iteration = int(row.get("iteration") or self.iteration)
        self.steps = int(row.get("steps") or self.steps)
        if row.get(metric) not in (None, ""):
            with suppress(ValueError):
                self.metric = float(row[metric])


@dataclass
class SweepRecord:
    """All trials of a sweep, the newest last."""

    folder: SweepFolder
    metric: str
    mode: str
    trials: list[Trial] = field(default_factory=list)

    def add(self, values: Values) -> Trial:
        """Add a trial and write the record, so that it is known whatever happens next."""
        trial = Trial(f"trial-{len(self.trials) + 1:03d}", values)
        self.trials.append(trial)
        self.save()
        return trial

    def find(self, name: str) -> Trial:
        """Return a trial by its name."""
        return next(trial for trial in self.trials if trial.name == name)

    def best(self) -> Trial | None:
        """Return the trial with the best last metric, or None before there is one."""
        sign = 1 if self.mode == "max" else -1
        compared = [trial for trial in self.trials if trial.metric is not None and trial.state != "failed"]
        return max(compared, key=lambda trial: sign * (trial.metric or 0.0), default=None)

    def counts(self) -> dict[str, int]:
        """Return how many trials are in each state."""
        return dict(Counter(trial.state for trial in self.trials))

    def save(self) -> None:
        """Write the record as a whole."""
        trials = [asdict(trial) for trial in self.trials]
        with explained(self.folder.record):
            write_json(self.folder.record, {"metric": self.metric, "mode": self.mode, "trials": trials})

    @classmethod
    def load(cls, folder: SweepFolder) -> SweepRecord:
        """Read the record, and from the trials' own folders how far they really came.

        Raises:
            InputError: if it cannot be read.
        """
        try:
            content = json.loads(read_bytes(folder.record))
            trials = [Trial(**trial) for trial in content["trials"]]
            record = cls(folder, content["metric"], content["mode"], trials)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(f"{folder.record}: cannot be read: {error}\n    take another --name") from None
        for trial in trials:
            record.refresh(trial)
        return record

    def refresh(self, trial: Trial) -> None:
        """Take over what the trial's run says of itself, if it has begun."""
        run = self.folder.trial(trial.name)
        status = read_status(run.status)
        if status is None:
            return
        trial.state, trial.reason, trial.exit_code = status.shown_state, status.reason, status.exit_code
        trial.iteration, trial.steps = status.iteration, status.steps
        rows = read_metrics(run.metrics)
        trial.add(rows.last(), self.metric)
        trial.metric = next(reversed(rows.numbers(self.metric)), None)
        trial.values = values_of(run, trial.values)


def values_of(run: RunFolder, values: Values) -> Values:
    """Return the values that a run really has: the scheduler may have changed those it began with."""
    try:
        table = load_saved(run.experiment).experiment.as_table()
    except InputError:
        return values
    return {key: value_at(table, key) for key in values}
