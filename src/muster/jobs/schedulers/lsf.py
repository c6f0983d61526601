"""LSF, seen from outside the job."""

from __future__ import annotations

import json
from collections.abc import Sequence

from muster.jobs.commands import UnansweredError, ask
from muster.jobs.schedulers.model import (
    ENDED,
    QUEUED,
    RUNNING,
    Job,
    JobAnswer,
    Scheduler,
    mebibytes,
    minutes,
    option,
)

STATES = {
    "PEND": QUEUED,
    "PROV": QUEUED,
    "PSUSP": QUEUED,
    "WAIT": QUEUED,
    "FWD_PEND": QUEUED,
    "RUN": RUNNING,
    "USUSP": RUNNING,
    "SSUSP": RUNNING,
    "DONE": ENDED,
    "EXIT": ENDED,
    "ZOMBI": ENDED,
}
NO_JOB = 255


def directives(job: Job) -> list[str | None]:
    """With a number of CPUs so many slots on each host, else whole hosts."""
    cluster = job.cluster
    nodes = 1 if cluster.nodes is None else cluster.nodes
    slots = option("-n {}", nodes and cluster.cpus and nodes * cluster.cpus)
    return [
        f"-J {job.name}" + (f"[1-{job.num_tasks}]" if job.num_tasks else ""),
        "-o %J_%I.out" if job.num_tasks else "-o %J.out",
        slots,
        option('-R "span[ptile={}]"', cluster.cpus) if slots else option("-nnodes {}", nodes),
        "-x" if slots is None and nodes else None,
        option('-gpu "num={}"', cluster.gpus or None),
        option("-M {}MB", cluster.memory and mebibytes(cluster.memory)),
        option("-W {}", cluster.wall_time and minutes(cluster.wall_time)),
        option("-P {}", cluster.account),
        option("-q {}", cluster.queue),
        option("-sla {}", cluster.qos),
        option('-R "select[{}]"', cluster.constraint),
        option("-U {}", cluster.reservation),
        option('-R "rusage[{}]"', cluster.licences),
        "-rn" if cluster.chain == "none" else "-r",
        '-Q "75"' if cluster.chain == "requeue" else None,
    ]


def ask_states(jobs: Sequence[str]) -> dict[str, JobAnswer]:
    """Ask for these jobs, those that have ended too; one that is unknown is in the answer, as an error."""
    fields = "jobid stat start_time estimated_start_time pend_reason jobindex"
    text = ask("bjobs", "-a", "-json", "-o", fields, *jobs, accepted=(0, NO_JOB))
    answers = {}
    try:
        for record in json.loads(text)["RECORDS"]:
            if "ERROR" in record:
                continue
            index = str(record.get("JOBINDEX", "0") or "0")
            job = str(record["JOBID"]) if index == "0" else f"{record['JOBID']}[{index}]"
            start = str(record.get("START_TIME") or record.get("ESTIMATED_START_TIME") or "")
            answers[job] = JobAnswer(STATES[record["STAT"]], str(record.get("PEND_REASON") or ""), start)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UnansweredError(f"bjobs answered what is not understood: {text.strip()[:80]}") from None
    return answers


SCHEDULER = Scheduler(
    name="lsf",
    prefix="#BSUB",
    directives=directives,
    submit=("bsub",),
    script_on_stdin=True,
    job_id=r"Job <(\d+)>",
    dependency=("-w", "ended({job})"),
    cancel=("bkill", "{job}"),
    ask=ask_states,
    seconds_of_limit=60,
    job_variable="LSB_JOBID",
    requeue_code=75,
    array_variable="LSB_JOBINDEX",
    array_job="{job}[{task}]",
)
