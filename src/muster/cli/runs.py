"""`muster runs`: list the runs."""

from __future__ import annotations

import time
from dataclasses import asdict

from rich.table import Table

from muster.cli.options import AsJson, RunsDir
from muster.cli.screen import console, figure, print_json
from muster.experiment.quantities import format_duration
from muster.runs.finding import list_runs
from muster.runs.folder import runs_dir as folder_of_runs
from muster.runs.reading import RunRecord, printable, read_state


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
    table = Table(box=None, pad_edge=False)
    for heading in ("run", "state", "iteration", "steps", "return", "updated"):
        table.add_column(heading, justify="left" if heading in ("run", "state") else "right")
    for record in found:
        status = record.status
        table.add_row(
            printable(str(record.folder.path.relative_to(directory))),
            status.shown_state,
            str(status.iteration),
            f"{status.steps:,}",
            figure(status.return_mean),
            f"{format_duration(max(0.0, time.time() - status.updated))} ago" if status.updated else "-",
        )
    console().print(table)
    for record in found:
        for problem in record.problems:
            console().print(f"{printable(record.folder.name)}: {problem}")


def _as_json(record: RunRecord) -> dict[str, object]:
    status = {**asdict(record.status), "state": record.status.shown_state, "run": str(record.folder.path)}
    return {**status, "problems": record.problems}
