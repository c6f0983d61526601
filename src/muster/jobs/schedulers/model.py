"""What a scheduler is to a job: its directives, its commands, and the table from its states to ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from muster.clusters.named import NamedCluster, QueueLimits

QUEUED, RUNNING, ENDED = "queued", "running", "ended"
"""What a job can be; how it ended is for the run's own record to say."""
OUTPUT = "{job}.out"


@dataclass(frozen=True)
class Job:
    """What a script asks of the scheduler."""

    name: str
    cluster: NamedCluster
    num_tasks: int | None = None
    """Tasks of an array, counted from 1; None for a job that is no array."""


@dataclass(frozen=True)
class JobAnswer:
    """What the scheduler says of a job."""

    state: str
    reason: str = ""
    start: str = ""
    """When it has started or may start, in the scheduler's words."""


@dataclass(frozen=True)
class Queues:
    """What the queues of a scheduler can give, and the one that a job comes into without a word."""

    limits: dict[str, QueueLimits]
    default: str | None = None


@dataclass(frozen=True)
class Scheduler:
    """One scheduler. Templates name the job as `{job}`, the user's limits come from the cluster."""

    name: str
    prefix: str | None
    """Before each directive of a script; None where they are arguments of the submitting command."""
    directives: Callable[[Job], list[str | None]]
    """Directives in the order of the script; None for one that is left out."""
    submit: tuple[str, ...]
    job_id: str
    """Pattern that finds the job's id in what the submitting command prints."""
    dependency: tuple[str, ...]
    """Arguments that let a job wait until another one has ended, however."""
    cancel: tuple[str, ...]
    ask: Callable[[Sequence[str]], dict[str, JobAnswer]]
    """Returns the states of jobs by id, without those that the scheduler has forgotten; raises UnansweredError."""
    job_variable: str
    """Holds the job's id inside the job."""
    requeue: tuple[str, ...] | None = None
    """Has the running job queued again; None if the scheduler has no such command."""
    saved_code: int = 75
    """What a job exits with that is saved and to be continued."""
    requeue_code: int | None = None
    """An exit code at which the scheduler queues the job again by itself."""
    array_variable: str | None = None
    """Holds the task's number in an array; None if there are no arrays."""
    array_job_variable: str | None = None
    """Holds the array's id inside a task, where that is not the job's."""
    array_job: str = ""
    """How the scheduler calls one task, `{task}`, of an array; without it, the number goes into `[]` of the id."""
    script_on_stdin: bool = False
    needs: tuple[str, ...] = ()
    """Keys without which it refuses every job."""
    seconds_of_limit: int = 1
    """Wall times are counted in steps of so many seconds."""
    chain: str = "dependency"
    """How a job continues if the cluster does not say."""
    end_time: str | None = None
    """Variable that may hold the end of the job in unix time."""
    login_shell: bool = True
    """Whether scripts run in a login shell if the cluster does not say."""
    is_launched: bool = True
    """Whether jobs run their command under `muster launch`, which makes one Ray of several hosts."""
    is_sequential: bool = False
    """Whether seeds run one after another, for their jobs would share the CPUs of one host."""
    is_asked_by_run: bool = False
    """Whether it is asked for each run by itself, for it may be unable to answer for some of them only."""
    queues: Callable[[], Queues] | None = None
    """Returns the queues that the scheduler has; raises UnansweredError."""

    def own_id(self, environ: Mapping[str, str]) -> str:
        """Return the id of the job that this process is in, as the submitting command gave it; empty outside."""
        task = environ.get(self.array_variable or "", "")
        if not task.isdecimal() or task == "0" or not self.array_job:
            return environ.get(self.job_variable, "")
        return self.task_id(environ.get(self.array_job_variable or self.job_variable, ""), int(task))

    def task_id(self, job: str, task: int | None) -> str:
        """Return the id of one task of an array, or of a job that is none."""
        if task is None:
            return job
        return self.array_job.format(job=job, task=task) if self.array_job else job.replace("[]", f"[{task}]")


def option(template: str, value: object) -> str | None:
    """Return a directive, or None if there is nothing to say or the site wants it left out."""
    return None if value is None or value is False or value == "" else template.format(value)


def clock(seconds: float) -> str:
    """Write a wall time as HH:MM:SS, rounded up to whole seconds."""
    whole = int(-(-seconds // 1))
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def minutes(seconds: float) -> int:
    """Write a wall time in whole minutes, rounded down as `seconds_of_limit` lets the end be counted."""
    return max(1, int(seconds // 60))


def mebibytes(size: int) -> int:
    """Write a size in whole MiB, rounded up."""
    return -(-size // 1024**2)
