"""The machine itself, without a scheduler: a job is a session of processes that outlives its terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from muster.clusters.named import RAY, SSH
from muster.environment_variables import LOCAL_JOB_VARIABLE
from muster.errors import InputError
from muster.jobs.commands import UnansweredError
from muster.jobs.detached import MODULE, waits
from muster.jobs.processes import JobProcess, this_host
from muster.jobs.schedulers.model import QUEUED, RUNNING, Job, JobAnswer, Scheduler

_WITHOUT_EFFECT = (
    *("cpus", "gpus", "memory", "account", "queue", "qos", "constraint", "reservation", "licences"),
    "directives",
)


def directives(job: Job) -> list[str | None]:
    """Nothing: there is nobody to read them.

    Raises:
        InputError: naming what would have no effect.
    """
    useless = [key for key in _WITHOUT_EFFECT if getattr(job.cluster, key)]
    if (job.cluster.nodes or 1) > 1:
        useless.insert(0, "nodes")
    if useless:
        raise InputError(
            f"--on local: {', '.join(useless)}: without effect, for this machine has no scheduler\n"
            "    leave them out; --set resources.workers=N bounds the CPUs that training uses"
        )
    if job.cluster.dashboard and sys.platform != "linux":
        raise InputError("--on local: dashboard: Ray's dashboard comes with `muster launch`, which needs Linux")
    return []


def ask_states(jobs: Sequence[str]) -> dict[str, JobAnswer]:
    """Look for the processes of jobs; those of another host cannot be seen."""
    answers = {}
    for name in jobs:
        try:
            job = JobProcess.parse(name)
            is_there = bool(job.members())
            reason = waits(job.arguments()) if is_there else None
        except (OSError, ValueError) as error:
            raise UnansweredError(str(error)) from None
        if not is_there and not job.is_here:
            raise UnansweredError(f"its job is on {job.host}, and cannot be seen from {this_host()}")
        if is_there:
            answers[name] = JobAnswer(RUNNING) if reason is None else JobAnswer(QUEUED, reason)
    return answers


_COMMAND = (sys.executable, "-P", "-m", MODULE)

SCHEDULER = Scheduler(
    name="local",
    prefix="#LOCAL",
    directives=directives,
    submit=(*_COMMAND, "start"),
    job_id=r"^(\S+)$",
    dependency=("--after={job}",),
    cancel=(*_COMMAND, "cancel", "{job}"),
    ask=ask_states,
    job_variable=LOCAL_JOB_VARIABLE,
    chain="none",
    login_shell=False,
    is_launched=False,
    is_sequential=True,
    is_asked_by_run=True,
)

SSH_SCHEDULER = replace(SCHEDULER, name=SSH, prefix="#SSH", directives=lambda job: [], is_launched=True)
"""One host of several that were reached by ssh: the same, with a part in a launch."""

RAY_SCHEDULER = replace(SCHEDULER, name=RAY, prefix="#RAY", directives=lambda job: [], submit=(*_COMMAND, "adopt"))
"""A job of a Ray that exists: the process that submits becomes the job, and its command joins that Ray."""
