"""Flux, seen from outside the job.

A job is submitted as the command of every host, since a batch script of Flux neither passes an exit code on nor
lives through the signal at the end of the wall time.
"""

from __future__ import annotations

from collections.abc import Sequence

from muster.jobs.commands import UnansweredError, ask
from muster.jobs.schedulers.model import ENDED, QUEUED, RUNNING, Job, JobAnswer, Scheduler, option

STATES = {
    "NEW": QUEUED,
    "DEPEND": QUEUED,
    "PRIORITY": QUEUED,
    "SCHED": QUEUED,
    "RUN": RUNNING,
    "CLEANUP": RUNNING,
    "INACTIVE": ENDED,
}


def directives(job: Job) -> list[str | None]:
    """Arguments of `flux submit`; without a number of CPUs the hosts are the job's own."""
    cluster = job.cluster
    return [
        f"--job-name={job.name}",
        "--output={{id}}.out",
        option("--nodes={}", 1 if cluster.nodes is None else cluster.nodes),
        "--tasks-per-node=1",
        "--exclusive" if cluster.cpus is None else option("--cores-per-task={}", cluster.cpus),
        option("--gpus-per-task={}", cluster.gpus or None),
        option("--time-limit={}s", cluster.wall_time and int(cluster.wall_time)),
        option("--bank={}", cluster.account),
        option("--queue={}", cluster.queue),
        option("--requires={}", cluster.constraint),
    ]


def ask_states(jobs: Sequence[str]) -> dict[str, JobAnswer]:
    """Ask for all of the user's jobs, since a question for one that is forgotten is answered by an error."""
    text = ask("flux", "jobs", "-a", "-n", "-o", "{id.f58}|{id.dec}|{state}|{exception.note}")
    wanted = {plain(job): job for job in jobs}
    answers = {}
    for line in text.splitlines():
        short, number, state, note = (*line.strip().split("|", 3), "", "", "")[:4]
        if state not in STATES:
            raise UnansweredError(f"flux jobs answered what is not understood: {line.strip()[:80]}")
        for name in (plain(short), number):
            if name in wanted:
                answers[wanted[name]] = JobAnswer(STATES[state], note)
    return answers


def plain(job: str) -> str:
    """Write an id as Flux writes it where its letter for ids cannot be shown."""
    return job.replace("ƒ", "f")


SCHEDULER = Scheduler(
    name="flux",
    prefix=None,
    directives=directives,
    submit=("flux", "submit"),
    job_id=r"^(\S+)$",
    dependency=("--dependency=afterany:{job}",),
    cancel=("flux", "cancel", "{job}"),
    ask=ask_states,
    job_variable="FLUX_JOB_ID",
)
