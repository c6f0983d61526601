"""What trackers have stored: `python -m tests.tracking.stores TRACKER FOLDER` prints every value.

In a process of its own, since trackers read where they are from the environment when they are imported.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Stored = tuple[str, int, float]


def mlflow(folder: Path) -> Iterator[Stored]:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{folder}/mlflow.db")
    [run] = client.search_runs([one.experiment_id for one in client.search_experiments()])
    for name in run.data.metrics:
        for one in client.get_metric_history(run.info.run_id, name):
            yield name, one.step, one.value


def tensorboard(folder: Path) -> Iterator[Stored]:
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    for path in folder.glob("events/*/events.out.tfevents.*"):
        for event in LegacyEventFileLoader(str(path)).Load():
            for value in event.summary.value:
                yield value.tag, event.step, value.simple_value


def trackio(folder: Path) -> Iterator[Stored]:
    from trackio.sqlite_storage import SQLiteStorage

    [run] = SQLiteStorage.get_runs("muster")
    for row in SQLiteStorage.get_logs("muster", run):
        yield from _row(row, row["step"])


def wandb(folder: Path) -> Iterator[Stored]:
    from muster.tracking.wandb_tracker import _rows_in

    own_steps: Counter[float] = Counter()
    for path in folder.glob("wandb/offline-run-*/*.wandb"):
        for row in _rows_in(path, "muster"):
            own_steps[row["_step"]] += 1
            yield from _row(row, row["steps"])
    assert set(own_steps.values()) == {1}


def _row(row: Any, step: float) -> Iterator[Stored]:
    for name, value in row.items():
        if isinstance(value, int | float) and name not in ("step", "steps") and not name.startswith("_"):
            yield name, int(step), float(value)


if __name__ == "__main__":
    kind, where = sys.argv[1:]
    print(json.dumps(list(globals()[kind](Path(where)))))
