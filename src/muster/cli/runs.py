"""`muster runs`: list the runs."""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from pathlib import Path

from muster.cli.options import AsJson, RunsDir
from muster.cli.screen import columns, figure, print_json
from muster.experiment.quantities import format_duration
from muster.runs.finding import list_runs
from muster.runs.folder import runs_dir as folder_of_runs
from muster.runs.reading import RunRecord, printable, read_state

_HEADINGS = ("run", "state", "iteration", "steps", "return", "updated")
_NUMBERS = range(2, 6)


def runs(
    runs_dir: RunsDir = None,
    as_json: AsJson = False,
) -> None:
    """List the runs, the newest first."""
    directory = folder_of_runs(runs_dir)
    found = [read_state(folder) for folder in list_runs(directory)]
    if as_json:
        print_json([_as_json(record) for record in found])
        return
    if not found:
        print(f"no runs in {directory}; start one: muster train CartPole-v1")
        return
    rows = [_HEADINGS, *(_cells(record, directory) for record in found)]
    print(columns(rows, numbers=_NUMBERS))
    for record in found:
        for problem in record.problems:
            print(f"{printable(record.folder.name)}: {problem}")


def _cells(record: RunRecord, directory: Path) -> tuple[str, ...]:
    status = record.status
    return (
        printable(os.path.relpath(record.folder.path, directory)),
        status.shown_state,
        str(status.iteration),
        f"{status.steps:,}",
        figure(status.return_mean),
        f"{format_duration(max(0.0, time.time() - status.updated))} ago" if status.updated else "-",
    )


def _as_json(record: RunRecord) -> dict[str, object]:
    status = {**asdict(record.status), "state": record.status.shown_state, "run": str(record.folder.path)}
    return {**status, "problems": record.problems}
