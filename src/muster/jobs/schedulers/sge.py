"""Grid Engine, seen from outside the job."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence

from muster.jobs.commands import UnansweredError, ask, user_name
from muster.jobs.schedulers.model import (
    QUEUED,
    RUNNING,
    Job,
    JobAnswer,
    Scheduler,
    clock,
    mebibytes,
    option,
)

PARALLEL_ENVIRONMENT = "mpi"


def directives(job: Job) -> list[str | None]:
    """Slots are counted over all hosts; how they are spread is the parallel environment's to say."""
    cluster = job.cluster
    environment = cluster.parallel_environment or PARALLEL_ENVIRONMENT
    slots = None if cluster.nodes is False else (cluster.nodes or 1) * (cluster.cpus or 1)
    return [
        f"-N {job.name}",
        "-cwd",
        "-S /bin/bash",
        "-j y",
        "-o $JOB_ID.$TASK_ID.out" if job.num_tasks else "-o $JOB_ID.out",
        option("-t 1-{}", job.num_tasks),
        option(f"-pe {environment} {{}}", slots),
        option("-l gpu={}", cluster.gpus or None),
        option("-l h_vmem={}M", cluster.memory and mebibytes(cluster.memory)),
        option("-l h_rt={}", cluster.wall_time and clock(cluster.wall_time)),
        option("-P {}", cluster.account),
        option("-q {}", cluster.queue),
        option("-l {}", cluster.constraint),
        option("-ar {}", cluster.reservation),
        option("-l {}", cluster.licences),
        "-r n" if cluster.chain == "none" else "-r y",
        "-notify",
    ]


def ask_states(jobs: Sequence[str]) -> dict[str, JobAnswer]:
    """Ask for all of the user's jobs; those that have ended are not listed."""
    text = ask("qstat", "-xml", "-g", "d", "-u", user_name())
    try:
        answer = ElementTree.fromstring(text)
    except ElementTree.ParseError:
        answer = None
    if answer is None or answer.tag != "job_info":
        raise UnansweredError(f"qstat answered what is not understood: {text.strip()[:80]}")
    answers = {}
    for entry in answer.iter("job_list"):
        task = (entry.findtext("tasks") or "").strip()
        number = (entry.findtext("JB_job_number") or "").strip()
        job = f"{number}.{task}" if task else number
        letters = (entry.findtext("state") or "").strip()
        start = entry.findtext("JAT_start_time") or ""
        reason = "the scheduler reports an error: see qstat -j" if "E" in letters else ""
        if job in jobs:
            answers[job] = JobAnswer(RUNNING if set(letters) & set("rtsST") else QUEUED, reason, start)
    return answers


SCHEDULER = Scheduler(
    name="sge",
    prefix="#$",
    directives=directives,
    submit=("qsub", "-terse"),
    job_id=r"^(\d+)(?:\.\S+)?$",
    dependency=("-hold_jid", "{job}"),
    cancel=("qdel", "{job}"),
    ask=ask_states,
    job_variable="JOB_ID",
    requeue_code=99,
    array_variable="SGE_TASK_ID",
    array_job="{job}.{task}",
)
