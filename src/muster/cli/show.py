"""`muster show`: one run's state, results, checkpoints and events."""

from __future__ import annotations

from muster.cli.options import AsJson, Run, RunsDir
from muster.cli.run_view import show_run
from muster.runs.finding import find_run
from muster.runs.folder import runs_dir as folder_of_runs


def show(
    run: Run,
    runs_dir: RunsDir = None,
    as_json: AsJson = False,
) -> None:
    """Show one run: state, results, checkpoints, last event, and what of its folder cannot be read."""
    show_run(find_run(run, folder_of_runs(runs_dir)), as_json=as_json)
