"""Slurm, seen from outside the job."""

from __future__ import annotations

import re
from collections.abc import Sequence

from muster.clusters.named import QueueLimits
from muster.jobs.commands import UnansweredError, ask, user_name
from muster.jobs.schedulers.model import (
    ENDED,
    OUTPUT,
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
    "PENDING": QUEUED,
    "CONFIGURING": QUEUED,
    "REQUEUED": QUEUED,
    "REQUEUE_FED": QUEUED,
    "REQUEUE_HOLD": QUEUED,
    "SPECIAL_EXIT": QUEUED,
    "RESV_DEL_HOLD": QUEUED,
    "RUNNING": RUNNING,
    "COMPLETING": RUNNING,
    "RESIZING": RUNNING,
    "SIGNALING": RUNNING,
    "STAGE_OUT": RUNNING,
    "STOPPED": RUNNING,
    "SUSPENDED": RUNNING,
    "BOOT_FAIL": ENDED,
    "CANCELLED": ENDED,
    "COMPLETED": ENDED,
    "DEADLINE": ENDED,
    "FAILED": ENDED,
    "LAUNCH_FAILED": ENDED,
    "NODE_FAIL": ENDED,
    "OUT_OF_MEMORY": ENDED,
    "PREEMPTED": ENDED,
    "RECONFIG_FAIL": ENDED,
    "REVOKED": ENDED,
    "TIMEOUT": ENDED,
}
_COLUMNS = "%i|%T|%S|%r"
_GPUS = re.compile(r"gpu(?::[^:(,]+)?:(\d+)")
_LIMIT = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")
_HEADING = "JOBID|STATE|START_TIME|REASON"


def directives(job: Job) -> list[str | None]:
    """Without a number of CPUs the hosts are the job's own; it is never ended because one host is lost."""
    cluster = job.cluster
    return [
        f"--job-name={job.name}",
        f"--output={OUTPUT.format(job='%A_%a' if job.num_tasks else '%j')}",
        "--open-mode=append",
        option("--array=1-{}", job.num_tasks),
        option("--nodes={}", 1 if cluster.nodes is None else cluster.nodes),
        "--ntasks-per-node=1",
        "--exclusive" if cluster.cpus is None else option("--cpus-per-task={}", cluster.cpus),
        option("--gpus-per-node={}", cluster.gpus or None),
        option("--mem={}M", cluster.memory and mebibytes(cluster.memory)),
        option("--time={}", cluster.wall_time and clock(cluster.wall_time)),
        option("--account={}", cluster.account),
        option("--partition={}", cluster.queue),
        option("--qos={}", cluster.qos),
        option("--constraint={}", cluster.constraint),
        option("--reservation={}", cluster.reservation),
        option("--licenses={}", cluster.licences),
        "--no-requeue" if cluster.chain == "none" else "--requeue",
        "--no-kill",
    ]


def ask_states(jobs: Sequence[str]) -> dict[str, JobAnswer]:
    """Ask for all of the user's jobs, since a question for one that is forgotten is answered by an error."""
    lines = ask("squeue", "--array", "--states=all", f"--user={user_name()}", f"--format={_COLUMNS}").splitlines()
    if not lines or lines[0].strip() != _HEADING:
        raise UnansweredError(f"squeue answered what is not understood: {lines[0][:80] if lines else 'nothing'}")
    answers = {}
    for line in lines[1:]:
        job, state, start, reason = (*line.split("|", 3), "", "", "")[:4]
        if job not in jobs:
            continue
        if state not in STATES:
            raise UnansweredError(f"squeue answered a state that is not known: {line[:80]}")
        known = start if start not in ("N/A", "Unknown") else ""
        answers[job] = JobAnswer(STATES[state], reason if reason != "None" else "", known)
    return answers


def ask_queues() -> Queues:
    """Ask for the partitions: hosts, CPUs and memory of a host, GPUs, and the longest time."""
    limits: dict[str, QueueLimits] = {}
    default = None
    for line in ask("sinfo", "--noheader", "--exact", "--format=%P|%D|%c|%m|%l|%G").splitlines():
        words = line.split("|")
        if len(words) != 6 or not words[1].isdecimal():
            raise UnansweredError(f"sinfo answered what is not understood: {line[:80]}")
        name, nodes = words[0].rstrip("*"), int(words[1])
        if words[0].endswith("*"):
            default = name
        before = limits.get(name, QueueLimits())
        limits[name] = QueueLimits(
            max_nodes=nodes + (before.max_nodes or 0),
            max_cpus=max(_leading_number(words[2]) or 1, before.max_cpus or 1),
            max_memory=max((_leading_number(words[3]) or 1) * 1024**2, before.max_memory or 1024**2),
            max_gpus=max(sum(map(int, _GPUS.findall(words[5]))), before.max_gpus or 0),
            max_wall_time=_seconds(words[4]),
        )
    return Queues(limits, default)


def _leading_number(text: str) -> int | None:
    found = re.match(r"\d+", text)
    return int(found[0]) if found else None


def _seconds(text: str) -> float | None:
    """Read a time limit: [D-]HH:MM:SS or MM:SS; None for `infinite`."""
    found = _LIMIT.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(days * 86_400 + hours * 3_600 + minutes * 60 + seconds) or None


SCHEDULER = Scheduler(
    name="slurm",
    prefix="#SBATCH",
    directives=directives,
    submit=("sbatch", "--parsable"),
    job_id=r"^(\d+)(?:;.*)?$",
    dependency=("--dependency=afterany:{job}",),
    cancel=("scancel", "{job}"),
    ask=ask_states,
    job_variable="SLURM_JOB_ID",
    requeue=("scontrol", "requeue", "{job}"),
    array_variable="SLURM_ARRAY_TASK_ID",
    array_job_variable="SLURM_ARRAY_JOB_ID",
    array_job="{job}_{task}",
    end_time="SLURM_JOB_END_TIME",
    queues=ask_queues,
)
