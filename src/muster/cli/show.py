"""`muster show`: one run as its folder tells it, or all of a sweep or of several seeds."""

from __future__ import annotations

from muster.cli.options import AsJson, Run, RunsDir
from muster.cli.run_view import show_named
from muster.runs.folder import runs_dir as folder_of_runs


def show(
    run: Run,
    runs_dir: RunsDir = None,
    as_json: AsJson = False,
) -> None:
    """Show one run: state, results, checkpoints, last event, and what of its folder cannot be read.

    Of a sweep or a folder of several seeds: all its runs.
    """
    show_named(run, folder_of_runs(runs_dir), as_json=as_json)
