"""What came of a sweep: the table of its trials, and the best one's experiment, ready to run."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import Any

from muster.experiment.loading import load_saved
from muster.experiment.quantities import counted
from muster.experiment.writing import experiment_toml
from muster.runs.files import explained, write_text
from muster.sweeps.record import SweepRecord, Trial
from muster.training.interruption import RESUMABLE, Interruption


@dataclass(frozen=True)
class SweepResult:
    """What came of a sweep; `--json` prints exactly these."""

    sweep: str
    reason: str
    trials: int
    states: dict[str, int]
    metric: str
    best_trial: str | None
    best_metric: float | None
    best_values: dict[str, Any] | None
    best_file: str | None
    exit_code: int


def summarise(record: SweepRecord, reason: str, exit_code: int) -> SweepResult:
    """Write the record, the table and the best trial's experiment, and return the result."""
    best = record.best()
    record.save()
    with explained(record.folder.path):
        write_text(record.folder.table, _table(record))
        if best is not None:
            write_text(record.folder.best, _best_experiment(record, best))
    return SweepResult(
        sweep=str(record.folder.path),
        reason=reason,
        trials=len(record.trials),
        states=record.counts(),
        metric=record.metric,
        best_trial=best.name if best else None,
        best_metric=best.metric if best else None,
        best_values=best.values if best else None,
        best_file=str(record.folder.best) if best else None,
        exit_code=exit_code,
    )


def verdict(record: SweepRecord, is_complete: bool, interruption: Interruption | None) -> tuple[str, int]:
    """Return why a sweep ended and its exit code; if all trials failed, that of the failures."""
    failed = [trial for trial in record.trials if trial.state == "failed"]
    unfinished = [trial for trial in record.trials if not trial.is_done]
    if unfinished or not is_complete:
        if interruption:
            return interruption.reason, interruption.exit_code
        reasons = {trial.reason for trial in unfinished}
        is_theirs = len(reasons) == 1 and all(reasons)
        return reasons.pop() if is_theirs else f"not done: {counted(len(unfinished), 'trial')}", RESUMABLE
    if failed and len(failed) == len(record.trials):
        codes = {trial.exit_code or 1 for trial in failed}
        return "all trials failed", codes.pop() if len(codes) == 1 else 1
    return "all trials are done", 0


def _table(record: SweepRecord) -> str:
    keys = list(dict.fromkeys(key for trial in record.trials for key in trial.values))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["trial", "state", *keys, "iteration", "steps", record.metric, "reason"])
    for trial in record.trials:
        values = [trial.values.get(key) for key in keys]
        metric = "" if trial.metric is None else trial.metric
        writer.writerow([trial.name, trial.state, *values, trial.iteration, trial.steps, metric, trial.reason])
    return text.getvalue()


def _best_experiment(record: SweepRecord, best: Trial) -> str:
    loaded = load_saved(record.folder.trial(best.name).experiment).without("name")
    note = f"# The best of {counted(len(record.trials), 'trial')}: {best.name}, {record.metric} {best.metric:g}.\n"
    return note + experiment_toml(loaded.experiment)
