"""Ending a submitted run: it saves first, then its job is freed, and nothing starts it again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
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
ASK_SECONDS = 5.0
"""How often the scheduler is asked whether a job is still there."""


def cancel_runs(jobs: Sequence[JobFolder], notice: Callable[[str], None]) -> list[bool]:
    """Cancel runs; return for each whether there was anything left to cancel.

    The marks come first, so that whatever else fails, no job starts the runs again, and all of them save at once.
    Queued jobs come next, for one may start when another has ended.

    Raises:
        JobError: if the scheduler does not do it; a running job then sees the mark and ends by itself.
    """
    for job in jobs:
        job.require_own(f"cancel {job.path.name}")
    marked = [_mark(job) for job in jobs]
    running = [_cancel_queued(job, is_new=is_new) for job, is_new in zip(jobs, marked, strict=True)]
    for job, names in zip(jobs, running, strict=True):
        if names is not None:
            _cancel_running(job, names, notice)
    return [names is not None for names in running]


def _mark(job: JobFolder) -> bool:
    """Mark a run as cancelled; return whether it was not yet."""
    is_new = not job.is_cancelled()
    with explained(job.cancel):
        job.cancel.touch()
    return is_new


def _cancel_queued(job: JobFolder, *, is_new: bool) -> list[str] | None:
    """Take the queued jobs of a run out; return those that run, or None if nothing was left to cancel."""
    scheduler = SCHEDULERS[job.order().scheduler]
    left = {name: state for name, state in _states(job, scheduler).items() if state in (QUEUED, RUNNING)}
    if not left:
        if is_new:
            job.cancel.unlink(missing_ok=True)
        return None
    for name in (name for name, state in left.items() if state == QUEUED):
        _take_out(scheduler, name)
    return [name for name, state in left.items() if state == RUNNING]


def _cancel_running(job: JobFolder, names: Sequence[str], notice: Callable[[str], None]) -> None:
    order = job.order()
    for name in names:
        notice(f"job {name} is running: waiting until it has saved")
        _end(job, SCHEDULERS[order.scheduler], name)
    if order.kind == "train":
        rewrite_status(job.run.status, state="cancelled", reason="by `muster cancel`")


def _states(job: JobFolder, scheduler: Scheduler) -> dict[str, str]:
    """Return what the jobs of a run are: by the scheduler, or by the run's own record if it does not answer."""
    live = live_jobs(job)
    try:
        return {name: answer.state for name, answer in scheduler.ask(live).items()} if live else {}
    except UnansweredError:
        last = job.last_link()
        return {name: RUNNING if last and last.job_id == name and last.ended is None else QUEUED for name in live}


def _end(job: JobFolder, scheduler: Scheduler, name: str) -> None:
    """Let a running job save and end by itself; then take it from the scheduler if it is still there."""
    deadline = time.monotonic() + SAVE_SECONDS
    ask_at = time.monotonic() + ASK_SECONDS
    while time.monotonic() < deadline:
        last = job.last_link()
        if last is not None and last.job_id == name and last.ended is not None:
            with suppress(JobError):
                _take_out(scheduler, name)
            return
        if time.monotonic() >= ask_at:
            # A job that saw the mark before it began has nothing to save, and records no end.
            if not _is_left(scheduler, name):
                return
            ask_at = time.monotonic() + ASK_SECONDS
        time.sleep(POLL_SECONDS)
    _take_out(scheduler, name)


def _take_out(scheduler: Scheduler, name: str) -> None:
    """Cancel a job; one that has ended meanwhile needs no cancelling."""
    try:
        tell([part.format(job=name) for part in scheduler.cancel])
    except JobError:
        if _is_left(scheduler, name):
            raise


def _is_left(scheduler: Scheduler, name: str) -> bool:
    """Whether a job is queued or running, or may be."""
    try:
        answer = scheduler.ask([name]).get(name)
    except UnansweredError:
        return True
    return answer is not None and answer.state in (QUEUED, RUNNING)
