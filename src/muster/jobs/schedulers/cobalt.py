"""Cobalt, seen from outside the job."""

from __future__ import annotations

from collections.abc import Sequence

from muster.jobs.commands import UnansweredError, ask, user_name
from muster.jobs.schedulers.model import ENDED, QUEUED, RUNNING, Job, JobAnswer, Scheduler, minutes, option

STATES = {
    "queued": QUEUED,
    "starting": QUEUED,
    "user_hold": QUEUED,
    "admin_hold": QUEUED,
    "dep_hold": QUEUED,
    "dep_fail": ENDED,
    "maxrun_hold": QUEUED,
    "running": RUNNING,
    "preempting": RUNNING,
    "preempted": QUEUED,
    "killing": RUNNING,
    "exiting": RUNNING,
    "done": ENDED,
}
_HEADING = ["JobID", "State"]


def directives(job: Job) -> list[str | None]:
    """Cobalt gives whole hosts."""
    cluster = job.cluster
    attributes = [cluster.constraint or None, option("filesystems={}", cluster.licences)]
    return [
        f"--jobname {job.name}",
        option("-n {}", 1 if cluster.nodes is None else cluster.nodes),
        option("-t {}", cluster.wall_time and minutes(cluster.wall_time)),
        option("-A {}", cluster.account),
        option("-q {}", cluster.queue),
        option("--attrs {}", ":".join(filter(None, attributes))),
    ]


def ask_states(jobs: Sequence[str]) -> dict[str, JobAnswer]:
    """Ask for the user's jobs; those that have ended are not listed."""
    lines = ask("qstat", "-u", user_name(), "--header=JobID:State").splitlines()
    rows = [line.split() for line in lines if line.strip() and not set(line) <= {"=", "-", " "}]
    if not rows and not lines:
        return {}
    if not rows or rows[0] != _HEADING:
        raise UnansweredError(f"qstat answered what is not understood: {lines[0][:80]}")
    answers = {}
    for row in rows[1:]:
        if row[0] not in jobs:
            continue
        state = STATES.get(row[-1])
        if state is None:
            raise UnansweredError(f"qstat answered a state that is not known: {' '.join(row)[:80]}")
        answers[row[0]] = JobAnswer(state)
    return answers


SCHEDULER = Scheduler(
    name="cobalt",
    prefix="#COBALT",
    directives=directives,
    submit=("qsub",),
    job_id=r"^(\d+)$",
    dependency=("--dependencies", "{job}"),
    cancel=("qdel", "{job}"),
    ask=ask_states,
    seconds_of_limit=60,
    job_variable="COBALT_JOBID",
    # A job that others depend on must end well, or they are never started.
    saved_code=0,
    end_time="COBALT_ENDTIME",
)
