"""`muster logs`: what a submitted run's jobs have printed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.options import Run, RunsDir
from muster.errors import InputError
from muster.runs.folder import runs_dir as folder_of_runs

if TYPE_CHECKING:
    from muster.jobs.places.record import RunElsewhere


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
    from muster.jobs.places.record import find_elsewhere

    directory = folder_of_runs(runs_dir)
    if (elsewhere := find_elsewhere(run, directory)) is not None:
        raise typer.Exit(_print_elsewhere(elsewhere, host, follow=follow))
    job = find_job(run, directory)
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


def _print_elsewhere(run: RunElsewhere, host: str | None, *, follow: bool) -> int:
    """Have the logs printed where the run lives; Ray's log of a host is on that host, or on the first of them."""
    from muster.jobs.places.model import find_place

    place, flags = find_place(run.record), ["--follow"] if follow else []
    if host is None or len(run.record.hosts) == 1:
        return place.attend(["logs", run.folder, *flags, *(["--host", host] if host else [])])
    name = run.host_named(host)
    known = run.record.hosts[name]
    return place.attend(["logs", run.folder_on(name), *flags, "--host", known.hostname or host], host=name)
