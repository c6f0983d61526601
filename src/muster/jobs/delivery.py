"""Writing down a planned run and submitting its jobs: all or nothing."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from muster.errors import InputError, JobError
from muster.files.ownership import OWN_FOLDER
from muster.jobs.commands import tell
from muster.jobs.folder import SUBMITTED, JobFolder
from muster.jobs.sending import ARGUMENTS, send
from muster.jobs.snapshot import copy
from muster.jobs.submission_plan import Plan
from muster.runs.files import explained, write_text
from muster.runs.lock import RunLock
from muster.runs.status import rewrite_status
from muster.training.description import write_description


def carry_out(plan: Plan) -> list[str]:
    """Write what belongs to the run and submit its jobs; return their ids. If that fails, nothing is left.

    Raises:
        JobError: if the scheduler refuses a job; those sent before are taken back.
        RunLockedError: if another process submits the run at this moment.
    """
    job = plan.job
    left_behind = _made_by_this(job)
    with explained(job.folder):
        job.folder.mkdir(OWN_FOLDER, parents=True, exist_ok=True)
    with RunLock(job.lock), _signals_held_back() as caught:
        if any(one.job.submitted() != one.before for one in plan.members or [plan]):
            raise InputError(f"{job.path}: another process has just submitted it, so it is not submitted again")
        cancelled = [one for one in (plan, *plan.members) if one.job.is_cancelled()]
        sent: list[str] = []
        try:
            for one in (plan, *plan.members):
                _write(one)
            _send_all(plan, sent, caught)
        except BaseException as error:
            stuck = _take_back(plan, sent)
            for path in left_behind:
                shutil.rmtree(path, ignore_errors=True)
            for one in cancelled:
                one.job.cancel.touch()
            if stuck:
                raise JobError(
                    f"{error}\n    still in the queue, cancel them yourself: {', '.join(stuck)}"
                ) from None
            raise
    return sent


def _take_back(plan: Plan, sent: Sequence[str]) -> list[str]:
    """Cancel jobs that were sent; return those for which the scheduler does not do it."""
    stuck = []
    for name in sent:
        try:
            tell([part.format(job=name) for part in plan.scheduler.cancel])
        except JobError:
            stuck.append(name)
    return stuck


def _made_by_this(job: JobFolder) -> list[Path]:
    """Return the folders that a submission makes, to be removed if it fails."""
    if not job.path.exists() or not any(job.path.iterdir()):
        return [job.path]
    return [] if job.exists() else [job.folder, job.code]


@contextmanager
def _signals_held_back() -> Iterator[list[int]]:
    """Let no signal end this process before a job that the scheduler has taken is recorded or taken back."""
    caught: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda number, _: caught.append(number)) for number in numbers}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _send_all(plan: Plan, sent: list[str], caught: Sequence[int]) -> None:
    """Submit the first job of each run, and with `chain = "ahead"` those that follow it, one after another."""
    for one in plan.sent:
        before: str | None = None
        run_before = sent[-1] if sent and plan.scheduler.is_sequential else None
        for _ in range(plan.order.max_jobs if plan.order.chain == "ahead" else 1):
            _require_undisturbed(caught)
            job = send(one.job, plan.scheduler, after=before or run_before)
            sent.append(job)
            _require_undisturbed(caught)
            for task, run in enumerate(plan.members if plan.is_array else [one], start=1):
                job_id = plan.scheduler.task_id(job, task if plan.is_array else None)
                run.job.add(SUBMITTED, job_id=job_id, **({"after": before} if before else {"anew": True}))
                if run.order.kind == "train" and before is None:
                    scheduler = plan.order.scheduler
                    rewrite_status(
                        run.job.run.status, state="queued", reason="", scheduler=scheduler, job_id=job_id
                    )
            before = job


def _require_undisturbed(caught: Sequence[int]) -> None:
    if caught:
        raise JobError(f"interrupted by {signal.Signals(caught[0]).name}: nothing is submitted")


def _write(plan: Plan) -> None:
    job = plan.job
    with explained(job.path):
        job.path.mkdir(parents=True, exist_ok=True)
        job.cancel.unlink(missing_ok=True)
        if plan.project is not None:
            shutil.rmtree(job.code, ignore_errors=True)
            copy(plan.project, job.code)
        extra = {ARGUMENTS: json.dumps(plan.arguments)} if plan.arguments else {}
        job.create(plan.order, {job.script.name: plan.script, **plan.files, **extra})
        job.script.chmod(0o755)
        if plan.part is not None:
            write_text(job.part, json.dumps(plan.part.variables), private=True)
        if plan.loaded is not None and plan.order.kind == "train" and not job.run.experiment.exists():
            write_description(job.run, plan.loaded)
