"""`muster logs`: what a submitted run's jobs have printed."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from muster.cli.options import Run, RunsDir
from muster.errors import InputError
from muster.runs.folder import runs_dir as folder_of_runs


def logs(
    run: Run,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Keep printing until the run has ended.")] = False,
    host: Annotated[str | None, typer.Option(help="Print Ray's log of this host instead.")] = None,
    runs_dir: RunsDir = None,
) -> None:
    """Print the output of a submitted run's jobs, one after another.

    Ctrl-C ends the printing, never the run.
    """
    from muster.jobs.folder import find_job, members
    from muster.jobs.logs import Ending, harmless, host_logs
    from muster.jobs.logs import follow as followed

    job = find_job(run, folder_of_runs(runs_dir))
    if job.order().kind == "seeds":
        names = ", ".join(f"{run}/{member.path.name}" for member in members(job))
        raise InputError(f"{run}: holds several runs; which one? {names}")
    files = (lambda: host_logs(job, host)) if host is not None else job.outputs
    is_over = Ending(job) if follow else lambda: True
    shown = harmless if sys.stdout.isatty() else bytes
    try:
        for chunk in followed(files, is_over):
            sys.stdout.buffer.write(shown(chunk))
            sys.stdout.buffer.flush()
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
