"""`muster cancel`: save and end a submitted run."""

from __future__ import annotations

import shlex

from muster.cli.options import Run, RunsDir
from muster.cli.screen import console, show_notice
from muster.runs.folder import runs_dir as folder_of_runs


def cancel(run: Run, runs_dir: RunsDir = None) -> None:
    """Cancel a submitted run: it saves, its jobs leave the queue, and nothing starts it again."""
    from muster.jobs.cancelling import cancel_runs
    from muster.jobs.folder import find_job, members

    jobs = members(find_job(run, folder_of_runs(runs_dir)))
    cancelled = cancel_runs(jobs, show_notice)
    for job, is_cancelled in zip(jobs, cancelled, strict=True):
        console().print(f"{job.path.name}: {'cancelled' if is_cancelled else 'has ended already'}")
    if any(cancelled):
        show_notice(f"`muster submit {shlex.quote(run)} --resume` continues it")
