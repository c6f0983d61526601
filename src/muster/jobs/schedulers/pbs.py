"""PBS Professional and OpenPBS, seen from outside the job."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from muster.clusters.named import QueueLimits
from muster.jobs.commands import UnansweredError, ask
from muster.jobs.schedulers.model import (
    ENDED,
    QUEUED,
    RUNNING,
    Job,
    JobAnswer,
    Queues,
    Scheduler,
    clock,
    mebibytes,
    option,
)

STATES = {
    "Q": QUEUED,
    "H": QUEUED,
    "W": QUEUED,
    "T": QUEUED,
    "M": QUEUED,
    "R": RUNNING,
    "B": RUNNING,
    "E": RUNNING,
    "S": RUNNING,
    "U": RUNNING,
    "F": ENDED,
    "X": ENDED,
}
UNKNOWN_JOB, FINISHED_JOB = 153, 35


def directives(job: Job) -> list[str | None]:
    """Ask for one chunk a host, with all that is wanted of it; the output is written while the job runs."""
    cluster = job.cluster
    return [
        f"-N {job.name}",
        "-j oe",
        "-k oed",
        option("-J 1-{}", job.num_tasks),
        option("-l select={}", _chunks(job)),
        option("-l place={}", _place(job)),
        option("-l walltime={}", cluster.wall_time and clock(cluster.wall_time)),
        option("-A {}", cluster.account),
        option("-q {}", cluster.queue),
        option("-l qos={}", cluster.qos),
        "-r n" if cluster.chain == "none" else "-r y",
    ]


def _chunks(job: Job) -> str | None:
    cluster = job.cluster
    if cluster.nodes is False:
        return None
    parts = [
        str(cluster.nodes or 1),
        option("ncpus={}", cluster.cpus),
        "mpiprocs=1",
        option("ngpus={}", cluster.gpus or None),
        option("mem={}mb", cluster.memory and mebibytes(cluster.memory)),
        cluster.constraint or None,
    ]
    return ":".join(part for part in parts if part)


def _place(job: Job) -> str | None:
    if job.cluster.nodes is False:
        return None
    return "scatter:excl" if job.cluster.cpus is None else "scatter"


def ask_states(jobs: Sequence[str]) -> dict[str, JobAnswer]:
    """Ask for one job after another: of several, qstat prints the first alone."""
    answers = {}
    for job in jobs:
        found = _ask(job)
        if found is None:
            continue
        state = STATES.get(str(found.get("job_state")))
        if state is None:
            raise UnansweredError(f"qstat answered a state that is not known: {found.get('job_state')!r}")
        estimated = found.get("estimated")
        planned = estimated.get("start_time") if isinstance(estimated, dict) else None
        start = str(found.get("stime") or planned or "")
        answers[job] = JobAnswer(state, str(found.get("comment") or ""), start)
    return answers


def _ask(job: str) -> dict[str, Any] | None:
    """Return what the server says of a job, or None if it has forgotten it."""
    try:
        text = ask("qstat", "-x", "-f", "-F", "json", job)
    except UnansweredError as error:
        if error.code in (UNKNOWN_JOB, FINISHED_JOB):
            return None
        raise
    try:
        jobs = json.loads(text, strict=False).get("Jobs", {})
        found = next(iter(jobs.values()), None)
        return None if found is None else dict(found)
    except (ValueError, AttributeError, TypeError):
        raise UnansweredError(f"qstat answered what is not understood: {text.strip()[:80]}") from None


def ask_queues() -> Queues:
    """Ask for the queues and the limits that are set on them."""
    text = ask("qstat", "-Q", "-f", "-F", "json")
    limits = {}
    try:
        for name, queue in json.loads(text, strict=False).get("Queue", {}).items():
            if queue.get("queue_type", "Execution") != "Execution" or str(queue.get("enabled")) == "False":
                continue
            most = queue.get("resources_max", {})
            nodes, wall_time = most.get("nodect"), most.get("walltime")
            limits[name] = QueueLimits.model_validate(
                {"max_nodes": nodes and int(nodes), "max_wall_time": wall_time and str(wall_time)}
            )
    except (ValueError, AttributeError, TypeError):
        raise UnansweredError(f"qstat answered what is not understood: {text.strip()[:80]}") from None
    return Queues(limits)


SCHEDULER = Scheduler(
    name="pbs",
    prefix="#PBS",
    directives=directives,
    submit=("qsub",),
    job_id=r"^(\d+(?:\[\])?\.\S+|\d+)$",
    dependency=("-W", "depend=afterany:{job}"),
    cancel=("qdel", "{job}"),
    ask=ask_states,
    job_variable="PBS_JOBID",
    array_variable="PBS_ARRAY_INDEX",
    queues=ask_queues,
)
