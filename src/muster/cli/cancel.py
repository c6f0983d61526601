"""`muster cancel`: save and end a submitted run."""

from __future__ import annotations

import shlex
from pathlib import Path

from muster.cli.options import AsJson, Run, RunsDir
from muster.cli.screen import console, print_json, show_notice
from muster.runs.folder import runs_dir as folder_of_runs


def cancel(run: Run, runs_dir: RunsDir = None, as_json: AsJson = False) -> None:
    """Cancel a submitted run: it saves, its jobs leave the queue, and nothing starts it again."""
    cancelled = _cancel(run, folder_of_runs(runs_dir))
    if as_json:
        print_json(cancelled)
        return
    for name, is_cancelled in cancelled.items():
        console().print(f"{name}: {'cancelled' if is_cancelled else 'has ended already'}")
    if any(cancelled.values()):
        show_notice(f"`muster submit {shlex.quote(run)} --resume` continues it")


def _cancel(run: str, directory: Path) -> dict[str, bool]:
    """Cancel a run, or all of several; return for each whether there was anything left to cancel."""
    from muster.jobs.cancelling import cancel_runs
    from muster.jobs.folder import find_job, members
    from muster.jobs.places.model import find_place
    from muster.jobs.places.record import find_elsewhere

    if (elsewhere := find_elsewhere(run, directory)) is not None:
        return {elsewhere.path.name: find_place(elsewhere.record).cancel(elsewhere, show_notice)}
    jobs = members(find_job(run, directory))
    return dict(zip((job.path.name for job in jobs), cancel_runs(jobs, show_notice), strict=True))
