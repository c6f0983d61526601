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
from muster.runs.status import read_status


def runs(
    runs_dir: RunsDir = None,
    as_json: AsJson = False,
) -> None:
    """List the runs, the newest first."""
    directory = folder_of_runs(runs_dir)
    found = [(folder, read_status(folder.status)) for folder in list_runs(directory)]
    if as_json:
        print_json(
            [
                {**asdict(status), "state": status.shown_state, "run": str(folder.path)}
                for folder, status in found
                if status is not None
            ]
        )
        return
    if not found:
        print(f"no runs in {directory}; start one: muster train CartPole-v1")
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("run", "state", "iteration", "steps", "return", "updated"):
        table.add_column(heading, justify="left" if heading in ("run", "state") else "right")
    for folder, status in found:
        name = str(folder.path.relative_to(directory))
        if status is None:
            table.add_row(name, "starting")
            continue
        table.add_row(
            name,
            status.shown_state,
            str(status.iteration),
            f"{status.steps:,}",
            figure(status.return_mean),
            f"{format_duration(time.time() - status.updated)} ago",
        )
    console().print(table)
