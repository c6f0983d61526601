"""What can be seen to be wrong before a job is submitted: a missing key, more than a queue can give."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

from muster.clusters.named import FoundCluster, NamedCluster, QueueLimits
from muster.errors import InputError
from muster.experiment.quantities import format_duration
from muster.jobs.commands import UnansweredError
from muster.jobs.schedulers import SCHEDULERS
from muster.jobs.schedulers.model import Scheduler
from muster.runs.folder import RunFolder
from muster.runs.metrics import read_metrics

START_SECONDS = 30.0
"""What is kept for the start of Ray on all hosts, when nothing was measured."""
SAVE_SECONDS = 10.0


def require_complete(found: FoundCluster) -> Scheduler:
    """Return the scheduler of a cluster; refuse one that lacks what a job needs.

    Raises:
        InputError: naming every key.
    """
    if found.cluster.scheduler is None:
        raise InputError(
            f"--on {found.name}: {found.source} says no scheduler for it\n"
            '    add, for example, scheduler = "slurm"'
        )
    scheduler = SCHEDULERS[found.cluster.scheduler]
    needed = (*found.cluster.requires, *scheduler.needs)
    missing = [key for key in needed if getattr(found.cluster, key, None) in (None, (), "")]
    if missing:
        flags = ", ".join(f"--{key.replace('_', '-')}" for key in missing)
        raise InputError(
            f"--on {found.name}: needs {', '.join(missing)} ({found.source})\n"
            f"    give {flags}, or write it into [clusters.{found.name}]"
        )
    return scheduler


def require_time(cluster: NamedCluster, needed: float | None) -> None:
    """Refuse a wall time in which nothing could be learned.

    Raises:
        InputError: saying what is needed.
    """
    least = START_SECONDS + SAVE_SECONDS + (needed or 0.0)
    if cluster.wall_time and cluster.wall_time < least:
        what = "one iteration and a checkpoint of this run" if needed else "a checkpoint"
        raise InputError(
            f"--wall-time {format_duration(cluster.wall_time)}: too short; starting and {what} "
            f"need about {format_duration(least)}"
        )


def measured_need(run: RunFolder) -> float | None:
    """Return what an iteration and its checkpoint took the run before; None if it has done none."""
    try:
        totals = read_metrics(run.metrics).numbers("time/total")
    except (OSError, ValueError):
        return None
    return max((after - before for before, after in pairwise([0.0, *totals])), default=None)


def require_possible(found: FoundCluster, scheduler: Scheduler, *, may_ask: bool) -> None:
    """Refuse what the queue can never give, by the cluster's own limits or else by the scheduler's word.

    Raises:
        InputError: with everything that is too much.
    """
    cluster = found.cluster
    limits, queue, source = _limits(found, scheduler, may_ask=may_ask)
    problems = [] if limits is None else list(_problems(cluster, limits))
    if problems:
        where = f"queue {queue}" if queue else "the default queue"
        raise InputError(
            f"--on {found.name}: {where} cannot give this ({source})" + "".join(f"\n  {line}" for line in problems)
        )


def _limits(
    found: FoundCluster, scheduler: Scheduler, *, may_ask: bool
) -> tuple[QueueLimits | None, str | None, str]:
    queue = found.cluster.queue or found.cluster.qos or None
    if queue in found.cluster.queues:
        return found.cluster.queues[str(queue)], queue, found.source
    if not may_ask or scheduler.queues is None:
        return None, queue, ""
    with suppress(UnansweredError):
        known = scheduler.queues()
        name = found.cluster.queue or known.default
        if found.cluster.queue and known.limits and found.cluster.queue not in known.limits:
            raise InputError(
                f"--queue {found.cluster.queue}: {scheduler.name} has no such queue; "
                f"known: {', '.join(known.limits)}"
            )
        return known.limits.get(name or ""), name, f"from {scheduler.name}"
    return None, queue, ""


def _problems(cluster: NamedCluster, limits: QueueLimits) -> Iterator[str]:
    nodes = 1 if cluster.nodes is None else cluster.nodes
    if nodes and limits.min_nodes and nodes < limits.min_nodes:
        yield f"nodes = {nodes}: expected at least {limits.min_nodes}"
    if nodes and limits.max_nodes and nodes > limits.max_nodes:
        yield f"nodes = {nodes}: expected at most {limits.max_nodes}"
    if cluster.cpus and limits.max_cpus and cluster.cpus > limits.max_cpus:
        yield f"cpus = {cluster.cpus}: expected at most {limits.max_cpus} on each host"
    if cluster.gpus and limits.max_gpus is not None and cluster.gpus > limits.max_gpus:
        yield f"gpus = {cluster.gpus}: expected at most {limits.max_gpus} on each host"
    if cluster.memory and limits.max_memory and cluster.memory > limits.max_memory:
        wanted, most = _gigabytes(cluster.memory), _gigabytes(limits.max_memory)
        yield f"memory = {wanted}: expected at most {most} on each host"
    if cluster.wall_time and limits.max_wall_time and cluster.wall_time > limits.max_wall_time:
        most = format_duration(limits.max_wall_time)
        yield f"wall_time = {format_duration(cluster.wall_time)}: expected at most {most}"


def _gigabytes(size: int) -> str:
    return f"{size / 1024**3:.4g}G"
