"""Slurm: `sbatch`, `salloc`, `srun`, their steps, arrays and heterogeneous jobs."""

from __future__ import annotations

import re
from datetime import datetime

from muster.clusters.allocation.commands import ask
from muster.clusters.allocation.host_lists import expand_counts, expand_host_list
from muster.clusters.allocation.launchers import SRUN
from muster.clusters.allocation.machine import gpu_mask
from muster.clusters.allocation.model import Grant, Host, Sourced
from muster.clusters.allocation.shares import least
from muster.clusters.allocation.situation import Situation
from muster.clusters.allocation.variables import Environment, moment, number, text
from muster.errors import AllocationError

MEBIBYTE = 1024**2
_GPUS_PER_TASK = re.compile(r"gres[/:]gpu(?::[^=:,]+)?[=:](\d+)")
_GPU_REQUEST = re.compile(r"(?:^|,)(?:[^,]*:)?(\d+)(?=,|$)")
_END_TIME = re.compile(r"\bEndTime=(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)")


def read(situation: Situation) -> Grant | None:
    """Read a Slurm job, or the step of it that this process is a rank of."""
    environ = situation.environ
    job_id = text(environ, "SLURM_JOB_ID", "SLURM_JOBID")
    if job_id is None:
        return None
    in_step = situation.started_by(SRUN)
    names = _names(environ, in_step)
    shares, doubts = _cpus(environ, names)
    tasks = _tasks(environ, names, in_step)
    # mpiexec hands the first host's variables on to all ranks, so only srun's own tell of this host.
    this_host = text(environ, "SLURMD_NODENAME") if in_step or situation.ranks is None else None
    hosts = tuple(
        _host(environ, name, shares.get(name), tasks.value[index] if tasks else 1, is_this=_is(this_host, name))
        for index, name in enumerate(names.value)
    )
    return Grant(
        Sourced("slurm", job_id.source),
        Sourced(hosts, names.source),
        this_host=this_host,
        ranks_per_host=tasks if in_step else None,
        job_id=job_id,
        attempt=number(environ, "SLURM_RESTART_COUNT"),
        end_time=_end_time(situation, job_id.value),
        scratch=text(environ, "SLURM_TMPDIR"),
        doubts=doubts,
    )


def _names(environ: Environment, in_step: bool) -> Sourced[tuple[str, ...]]:
    groups = [text(environ, f"SLURM_JOB_NODELIST_HET_GROUP_{group}") for group in range(_num_groups(environ))]
    if not in_step and groups and all(groups):
        names = [name for found in groups if found for name in expand_host_list(found.value, found.source)]
        return Sourced(tuple(dict.fromkeys(names)), "SLURM_JOB_NODELIST_HET_GROUP_*")
    job = ("SLURM_JOB_NODELIST", "SLURM_NODELIST")
    found = text(environ, "SLURM_STEP_NODELIST", *job) if in_step else text(environ, *job)
    if found is None:
        raise AllocationError("SLURM_JOB_ID is set, but no SLURM_JOB_NODELIST names the hosts")
    expanded = expand_host_list(found.value, found.source)
    size = number(environ, found.source.replace("_NODELIST", "_NUM_NODES"))
    if size and size.value != len(expanded) and not groups:
        raise AllocationError(
            f"{found.source}={found.value} names {len(expanded)} hosts, but {size.source} says {size.value}"
        )
    return Sourced(expanded, found.source)


def _cpus(
    environ: Environment, names: Sourced[tuple[str, ...]]
) -> tuple[dict[str, Sourced[int]], tuple[str, ...]]:
    """Return each host's CPUs: the counts stand in the order of the job's hosts, not of the step's."""
    shares: dict[str, Sourced[int]] = {}
    doubts = []
    for suffix in ("", *(f"_HET_GROUP_{group}" for group in range(_num_groups(environ)))):
        written = text(environ, f"SLURM_JOB_CPUS_PER_NODE{suffix}")
        hosts = text(environ, f"SLURM_JOB_NODELIST{suffix}")
        if written is None or hosts is None:
            continue
        counts = expand_counts(written.value, written.source)
        job_names = expand_host_list(hosts.value, hosts.source)
        if len(counts) != len(job_names):
            doubts.append(f"{written.source} is for {len(counts)} hosts, {hosts.source} names {len(job_names)}")
            continue
        shares |= {name: Sourced(count, written.source) for name, count in zip(job_names, counts, strict=True)}
    return {name: shares[name] for name in names.value if name in shares}, tuple(doubts)


def _num_groups(environ: Environment) -> int:
    groups = number(environ, "SLURM_HET_SIZE")
    return groups.value if groups else 0


def _tasks(
    environ: Environment, names: Sourced[tuple[str, ...]], in_step: bool
) -> Sourced[tuple[int, ...]] | None:
    step = ("SLURM_STEP_TASKS_PER_NODE",) if in_step else ()
    found = text(environ, *step, "SLURM_TASKS_PER_NODE")
    if found is None:
        return None
    tasks = expand_counts(found.value, found.source)
    return Sourced(tasks, found.source) if len(tasks) == len(names.value) else None


def _host(environ: Environment, name: str, cpus: Sourced[int] | None, tasks: int, *, is_this: bool) -> Host:
    on_node = number(environ, "SLURM_CPUS_ON_NODE") if is_this else None
    cpus = least([on_node, cpus])
    gpus = _gpus(environ, tasks, is_this=is_this)
    return Host(name, cpus, gpus, _memory(environ, cpus, gpus))


def _is(this_host: Sourced[str] | None, name: str) -> bool:
    return this_host is not None and this_host.value == name


def _gpus(environ: Environment, tasks: int, *, is_this: bool) -> Sourced[int] | None:
    """Return a host's GPUs. Slurm tells of all that it gives: where it does not, and no mask shows any, none."""
    if is_this and (on_node := number(environ, "SLURM_GPUS_ON_NODE")):
        return on_node
    if per_node := text(environ, "SLURM_GPUS_PER_NODE"):
        return Sourced(sum(map(int, _GPU_REQUEST.findall(per_node.value))), per_node.source)
    if per_task := text(environ, "SLURM_GPUS_PER_TASK"):
        return Sourced(sum(map(int, _GPU_REQUEST.findall(per_task.value))) * tasks, per_task.source)
    resources = text(environ, "SLURM_TRES_PER_TASK")
    if resources and (counts := _GPUS_PER_TASK.findall(resources.value)):
        return Sourced(sum(map(int, counts)) * tasks, resources.source)
    if is_this and (ids := text(environ, "SLURM_STEP_GPUS", "SLURM_JOB_GPUS")):
        return Sourced(len(expand_host_list(f"gpu[{ids.value}]", ids.source)), ids.source)
    if is_this and gpu_mask(environ):
        return None
    return Sourced(0, "no SLURM_GPUS_ON_NODE or SLURM_GPUS_PER_NODE")


def _memory(environ: Environment, cpus: Sourced[int] | None, gpus: Sourced[int] | None) -> Sourced[int] | None:
    """Return a host's memory; 0 stands for all that the host has."""
    per_node = number(environ, "SLURM_MEM_PER_NODE")
    if per_node and per_node.value:
        return Sourced(per_node.value * MEBIBYTE, per_node.source)
    per_cpu = number(environ, "SLURM_MEM_PER_CPU")
    if per_cpu and per_cpu.value and cpus:
        return Sourced(per_cpu.value * cpus.value * MEBIBYTE, f"{per_cpu.source} for {cpus.value} CPUs")
    per_gpu = number(environ, "SLURM_MEM_PER_GPU")
    if per_gpu and per_gpu.value and gpus and gpus.value:
        return Sourced(per_gpu.value * gpus.value * MEBIBYTE, f"{per_gpu.source} for {gpus.value} GPUs")
    return None


def _end_time(situation: Situation, job_id: str) -> Sourced[float] | None:
    if told := moment(situation.environ, "SLURM_JOB_END_TIME"):
        return told
    if not situation.is_first:
        return None
    standard_times = {**situation.environ, "SLURM_TIME_FORMAT": "standard"}
    for command in (
        ("scontrol", "show", "job", "-o", job_id),
        ("squeue", "-h", "-j", job_id, "-o", "EndTime=%e"),
    ):
        found = _END_TIME.search(ask(standard_times, *command) or "")
        if found:
            return Sourced(datetime.fromisoformat(found[1]).timestamp(), command[0])
    return None
