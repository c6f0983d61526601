"""Ending a submitted run: it saves first, then its job is freed, and nothing starts it again."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from muster.errors import JobError
from muster.jobs.commands import UnansweredError, tell
from muster.jobs.folder import JobFolder
from muster.jobs.schedulers import SCHEDULERS
from muster.jobs.schedulers.model import QUEUED, RUNNING, Scheduler
from muster.jobs.states import live_jobs
from muster.runs.files import explained
from muster.runs.status import rewrite_status

SAVE_SECONDS = 60.0
POLL_SECONDS = 0.5


def cancel_run(job: JobFolder, notice: Callable[[str], None]) -> bool:
    """Cancel a run; return whether there was anything left to cancel.

    The mark comes first, so that whatever else fails, no job of the chain starts the run again.

    Raises:
        JobError: if the scheduler does not do it; a running job then sees the mark and ends by itself.
    """
    job.require_own(f"cancel {job.path.name}")
    order = job.order()
    scheduler = SCHEDULERS[order.scheduler]
    live = live_jobs(job)
    is_new = not job.is_cancelled()
    with explained(job.cancel):
        job.cancel.touch()
    states = _states(scheduler, live) if live else {}
    left = [name for name in live if states is None or states.get(name) in (QUEUED, RUNNING)]
    if not left:
        if is_new:
            job.cancel.unlink(missing_ok=True)
        return False
    for name in left:
        if states is None or states[name] == QUEUED:
            _command(scheduler.cancel, name)
    for name in left:
        if states is not None and states[name] == RUNNING:
            notice(f"job {name} runs: waiting until it has saved")
            _end(job, scheduler, name)
    if order.kind == "train":
        rewrite_status(job.run.status, state="cancelled", reason="by `muster cancel`")
    return True


def _end(job: JobFolder, scheduler: Scheduler, name: str) -> None:
    """Let a running job save and end by itself; then take it from the scheduler if it is still there."""
    deadline = time.monotonic() + SAVE_SECONDS
    while time.monotonic() < deadline:
        last = job.last_link()
        if last is not None and last.job_id == name and last.ended is not None:
            break
        time.sleep(POLL_SECONDS)
    with suppress(JobError):
        _command(scheduler.cancel, name)


def _states(scheduler: Scheduler, jobs: list[str]) -> dict[str, str] | None:
    """Return what the jobs are, or None if the scheduler does not answer: the user's wish is then passed on."""
    try:
        return {name: answer.state for name, answer in scheduler.ask(jobs).items()}
    except UnansweredError:
        return None


def _command(template: tuple[str, ...], job: str) -> None:
    tell([part.format(job=job) for part in template])
