"""The states of submitted runs: by their own records, and by what the scheduler says of their jobs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from muster.errors import InputError
from muster.jobs.chain import INTERRUPTED, SAVED, may_continue
from muster.jobs.commands import UnansweredError
from muster.jobs.folder import JobFolder, Link, Order, members
from muster.jobs.schedulers import SCHEDULERS
from muster.jobs.schedulers.model import QUEUED, RUNNING, JobAnswer
from muster.runs.status import Status, heartbeat_is_fresh, read_status

Answers = dict[str, JobAnswer] | UnansweredError
ENDED_STATES = ("finished", "failed", "cancelled", "stopped", "lost")
_ENDING = "training has ended; its processes are being ended"


@dataclass(frozen=True)
class RunState:
    """A submitted run as `muster status` shows it."""

    run: str
    kind: str
    state: str
    reason: str
    cluster: str
    scheduler: str
    job_id: str | None
    link: int
    max_jobs: int
    start: str
    """When its job has started or may start, in the scheduler's words."""
    iteration: int
    steps: int
    return_mean: float | None
    updated: float
    exit_code: int | None
    node_hours: float
    cpu_efficiency: float | None
    """Of all CPUs over the time of the links that have ended; None where it was not measured."""
    memory: int | None
    """Most bytes that any host used."""
    place: str = ""
    """The host that was asked, for a run that does not live on this file system."""


def read_states(jobs: Sequence[JobFolder]) -> list[RunState]:
    """Return the states of runs; a scheduler is asked once for all, and only for jobs that may still live."""
    orders = {job.path: job.order() for job in jobs}
    asked = {job.path: live_jobs(job) for job in jobs}
    groups = {job.path: _asked_together(job, orders[job.path].scheduler) for job in jobs}
    wanted: dict[tuple[str, str], list[str]] = {}
    for job in jobs:
        if live := asked[job.path]:
            wanted.setdefault(groups[job.path], []).extend(live)
    answers = {group: _ask(group[0], ids) for group, ids in wanted.items()}
    states = []
    for job in jobs:
        answer = answers.get(groups[job.path], {})
        # The next job may have started while the scheduler was asked, who then said nothing of it.
        if not set(live_jobs(job)) <= set(asked[job.path]):
            answer = _ask(orders[job.path].scheduler, live_jobs(job))
        states.append(_state(job, orders[job.path], answer))
    return states


def _asked_together(job: JobFolder, scheduler: str) -> tuple[str, str]:
    return scheduler, str(job.path) if SCHEDULERS[scheduler].is_asked_by_run else ""


def live_jobs(job: JobFolder) -> list[str]:
    """Return the jobs of a run that may be queued or running, by its own record."""
    return _live(*_record(job))


def _record(job: JobFolder) -> tuple[Link | None, list[str]]:
    """Return the last link and the jobs that have not started; one that starts meanwhile is in both."""
    waiting = job.waiting()
    return job.last_link(), waiting


def _live(last: Link | None, waiting: Sequence[str]) -> list[str]:
    if last is not None and not may_continue(last.exit_code) and last.exit_code not in INTERRUPTED:
        return []
    return list(dict.fromkeys([*([last.job_id] if last else []), *waiting]))


def require_ended(job: JobFolder) -> None:
    """Refuse to submit a run that lives, or may: by its jobs, or trained without one.

    Raises:
        InputError: saying what is known of it.
    """
    if not job.exists():
        status = read_status(job.run.status)
        if status is not None and heartbeat_is_fresh(status):
            raise InputError(
                f"{job.path}: is {status.state} on {status.host}, so it is not submitted\n"
                "    stop it there first; it saves at Ctrl-C"
            )
        return
    for run, state in zip(runs := members(job), read_states(runs), strict=True):
        if state.state not in ENDED_STATES or _alive(run, state):
            reason = f" ({state.reason})" if state.reason else ""
            raise InputError(
                f"{run.path}: is {state.state}{reason}, so it is not submitted again\n"
                f"    wait for it, or end it: muster cancel {job.path.name}"
            )


def _alive(job: JobFolder, state: RunState) -> bool:
    """Whether a job is left that would continue it, as those submitted ahead."""
    answers = _ask(state.scheduler, job.waiting()) if job.waiting() else {}
    if isinstance(answers, UnansweredError):
        return True
    return any(answer.state in (QUEUED, RUNNING) for answer in answers.values())


def _ask(scheduler: str, jobs: Sequence[str]) -> Answers:
    try:
        return SCHEDULERS[scheduler].ask(jobs)
    except UnansweredError as error:
        return error


def _state(job: JobFolder, order: Order, answers: Answers) -> RunState:
    links = job.links()
    status = (read_status(job.run.status) if order.kind == "train" else None) or Status("unknown")
    last, waiting = _record(job)
    state, reason, start = _judge(job, order, last, waiting, status, answers)
    return RunState(
        run=str(job.path),
        kind=order.kind,
        state=state,
        reason=reason,
        cluster=order.cluster,
        scheduler=order.scheduler,
        job_id=_current_job(job, last, state),
        link=len(links),
        max_jobs=order.max_jobs,
        start=start,
        iteration=status.iteration,
        steps=status.steps,
        return_mean=status.return_mean,
        updated=status.updated,
        exit_code=last.exit_code if last else None,
        node_hours=node_hours(links, order, status),
        cpu_efficiency=cpu_efficiency(links, order),
        memory=max((link.memory for link in links if link.memory), default=None),
    )


def _current_job(job: JobFolder, last: Link | None, state: str) -> str | None:
    """Return the job that is queued for it, or else the last that ran."""
    waiting = job.waiting()
    if waiting and (last is None or state == "queued"):
        return waiting[0]
    return last.job_id if last else next(iter(job.submitted()[-1:]), None)


def _judge(
    job: JobFolder, order: Order, last: Link | None, waiting: Sequence[str], status: Status, answers: Answers
) -> tuple[str, str, str]:
    """Return state, reason and start of a run."""
    if not _live(last, waiting) or (job.is_cancelled() and (last is None or last.ended is not None)):
        return _ended(job, last, status)
    if isinstance(answers, UnansweredError):
        return "unknown", f"{answers}; {_last_heard(status)}", ""
    if last is not None and last.ended is None and (answer := answers.get(last.job_id)):
        if answer.state == RUNNING:
            return (*_running(order, last, status), answer.start)
        if answer.state == QUEUED:
            return "queued", answer.reason, answer.start
    if last is not None and last.ended is not None and (answer := answers.get(last.job_id)):
        if answer.state == RUNNING:
            return "saving", _ENDING, answer.start
        if answer.state == QUEUED:
            return "queued", answer.reason, answer.start
    for answer in (answers[name] for name in waiting if name in answers):
        if answer.state == RUNNING:
            return "starting", "", answer.start
        if answer.state == QUEUED and (last is None or may_continue(last.exit_code)):
            return "queued", answer.reason, answer.start
    return _ended(job, last, status)


def _running(order: Order, last: Link, status: Status) -> tuple[str, str]:
    """Say what a run does whose job runs; training writes into its status which link it belongs to."""
    if order.kind != "train":
        return "running", ""
    if status.link != last.number:
        return "starting", "Ray is being started on all hosts" if SCHEDULERS[order.scheduler].is_launched else ""
    if status.state in ENDED_STATES:
        return "saving", _ENDING
    return status.shown_state, status.reason if heartbeat_is_fresh(status) else "no heartbeat for a minute"


def _ended(job: JobFolder, last: Link | None, status: Status) -> tuple[str, str, str]:
    """Say how a run ended that no job continues."""
    reason = status.reason if status.state not in ("unknown", "queued", "starting", "running") else ""
    if job.is_cancelled():
        return "cancelled", reason or "by `muster cancel`", ""
    if last is None:
        return "lost", f"its job is gone and never started: was it cancelled? {_remedy(job)}", ""
    if last.exit_code is None:
        return "lost", f"its job is gone and recorded no end: killed, or a host was lost; {_remedy(job)}", ""
    if last.exit_code == 0:
        return "finished", reason, ""
    if last.exit_code in (SAVED, *INTERRUPTED):
        return "stopped", reason or f"exit code {last.exit_code}", ""
    return "failed", reason or f"exit code {last.exit_code}", ""


def _remedy(job: JobFolder) -> str:
    """Say how to continue a run; one of an array is continued with the others."""
    outer = JobFolder(job.path.parent)
    return f"`muster submit {outer.path.name if outer.exists() else job.path.name} --resume` continues it"


def _last_heard(status: Status) -> str:
    if not status.updated:
        return "the run has not reported yet"
    return f"the run reported {status.state} {max(0.0, time.time() - status.updated):.0f} s ago"


def node_hours(links: Sequence[Link], order: Order, status: Status) -> float:
    """Return what links took; one without a recorded end counts until the next, or the run's last sign of life."""
    seconds = 0.0
    for link, following in zip_longest(links, links[1:]):
        end = link.ended or (following.started if following else max(link.started, status.updated))
        seconds += max(0.0, end - link.started)
    return seconds / 3600 * order.nodes


def cpu_efficiency(links: Sequence[Link], order: Order) -> float | None:
    """Return the share of the CPUs that were asked for that was used, over the links that have said so."""
    measured = [link for link in links if link.ended is not None and link.cpu_seconds is not None]
    seconds = sum((link.ended or 0.0) - link.started for link in measured)
    if order.cpus is None or seconds <= 0:
        return None
    return sum(link.cpu_seconds or 0.0 for link in measured) / (seconds * order.cpus * order.nodes)
