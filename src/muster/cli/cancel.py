"""`muster cancel`: save and end a submitted run."""

from __future__ import annotations

from muster.cli.options import Run, RunsDir
from muster.cli.screen import console, show_notice
from muster.runs.folder import runs_dir as folder_of_runs


def cancel(run: Run, runs_dir: RunsDir = None) -> None:
    """Cancel a submitted run: it saves, its jobs leave the queue, and nothing starts it again."""
    from muster.jobs.cancelling import cancel_run
    from muster.jobs.folder import find_job, members

    for job in members(find_job(run, folder_of_runs(runs_dir))):
        if cancel_run(job, show_notice):
            console().print(
                f"{job.path.name}: cancelled; `muster submit ... --name {job.path.name} --resume` continues it"
            )
        else:
            console().print(f"{job.path.name}: has ended already")
