"""The allocation of this process: scheduler, launcher and machine put together."""

from __future__ import annotations

import os
import re
from pathlib import Path

from muster.clusters.allocation import cobalt, flux, lsf, pbs, sge, slurm
from muster.clusters.allocation.grace import USUAL, grace_of, grace_of_command
from muster.clusters.allocation.host_lists import short_name
from muster.clusters.allocation.launchers import find_ranks, lonely_world_doubt
from muster.clusters.allocation.machine import gpu_mask, is_this_machine, this_machine
from muster.clusters.allocation.model import Allocation, Grant, Host, Machine, Ranks, Sourced
from muster.clusters.allocation.shares import own_share
from muster.clusters.allocation.situation import Reader, Situation
from muster.clusters.allocation.unscheduled import SSH, read_local, read_mpi, read_ssh
from muster.clusters.allocation.variables import Environment, moment, number, seconds, text
from muster.environment_variables import END_TIME_VARIABLE, GRACE_VARIABLE, LAUNCH_ID_VARIABLE
from muster.errors import AllocationError

TASK_VARIABLES = ("SLURM_NTASKS", "PBS_NP", "LSB_DJOB_NUMPROC", "NSLOTS")
LAST_SCRATCH = "/tmp"

READERS: tuple[Reader, ...] = (
    read_ssh,
    flux.read,
    slurm.read,
    cobalt.read,
    pbs.read,
    lsf.read,
    sge.read,
    read_mpi,
    read_local,
)
"""What the user names first, then the innermost scheduler: Flux runs inside others, and Slurm imitates PBS.
The last one always has an answer."""


def read_allocation(
    environ: Environment | None = None, machine: Machine | None = None, *, may_ask: bool = True
) -> Allocation:
    """Return the allocation that this process is in.

    Args:
        environ: the environment; default: this process's own.
        machine: what the kernel allows; default: asked.
        may_ask: whether to ask the scheduler's own commands for what the environment does not tell.

    Raises:
        AllocationError: if a scheduler's or launcher's variable or file cannot be read.
    """
    environ = os.environ if environ is None else environ
    machine = machine or this_machine()
    ranks = find_ranks(environ)
    situation = Situation(environ, ranks, machine.name, may_ask)
    grant = next(filter(None, (read(situation) for read in READERS)))
    ranks = ranks or _rank_by_host(environ, grant, machine)
    index = _host_index(grant, ranks, machine)
    hosts = list(grant.hosts.value)
    granted = hosts[index.value] if index else None
    if index and granted:
        hosts[index.value] = own_share(granted, machine, gpu_mask(environ))
    return Allocation(
        scheduler=grant.scheduler,
        hosts=Sourced(tuple(hosts), grant.hosts.source),
        knows_all_hosts=grant.knows_all_hosts,
        host_index=index,
        ranks=ranks,
        ranks_per_host=grant.ranks_per_host,
        job_id=grant.job_id,
        launch_id=_launch_id(environ, grant, ranks),
        end_time=moment(environ, END_TIME_VARIABLE) or grant.end_time,
        grace=grace_of(grant.scheduler.value),
        scratch=_scratch(environ, grant),
        machine=machine,
        granted=granted,
        are_handed_on=grant.are_handed_on,
        doubts=(*grant.doubts, *filter(None, [lonely_world_doubt(ranks, number(environ, *TASK_VARIABLES))])),
    )


def usable_cpus() -> int:
    """Return how many CPUs of this host this process may really use."""
    host, machine = _this_share()
    return host.cpus.value if host.cpus else machine.cpus


def usable_gpus() -> int:
    """Return how many GPUs of this host this process may really use."""
    host, machine = _this_share()
    return host.gpus.value if host.gpus else machine.gpus


def usable_grace() -> float:
    """Return how many seconds this process may take to end after a signal.

    Raises:
        AllocationError: if the variable for it holds no number.
    """
    if told := seconds(os.environ, GRACE_VARIABLE):
        return told.value
    try:
        return grace_of_command(read_allocation(may_ask=False).grace.value)
    except AllocationError:
        return grace_of_command(USUAL.value)


def _this_share() -> tuple[Host, Machine]:
    allocation = read_allocation(may_ask=False)
    machine = allocation.machine
    return allocation.this_host or own_share(None, machine, gpu_mask=None), machine


def _rank_by_host(environ: Environment, grant: Grant, machine: Machine) -> Ranks | None:
    """Make this process a rank of a launch that was started by hand, the same command on each host of the list."""
    if grant.scheduler.value != SSH or text(environ, LAUNCH_ID_VARIABLE) is None:
        return None
    index = _host_index(grant, None, machine)
    if index is None:
        return None
    return Ranks(
        Sourced(SSH, LAUNCH_ID_VARIABLE),
        rank=index,
        num_ranks=Sourced(len(grant.hosts.value), grant.hosts.source),
        host_index=index,
    )


def _host_index(grant: Grant, ranks: Ranks | None, machine: Machine) -> Sourced[int] | None:
    names = [host.name for host in grant.hosts.value]
    for spell in (str, short_name):
        spelled = [spell(name) for name in names]
        if spell(machine.name) in spelled:
            return Sourced(spelled.index(spell(machine.name)), "this host's name")
    if ranks and ranks.host_index and ranks.host_index.value < len(names):
        return ranks.host_index
    if grant.this_host and grant.this_host.value in names:
        return Sourced(names.index(grant.this_host.value), grant.this_host.source)
    if grant.scheduler.value == SSH:
        ours = (index for index, name in enumerate(names) if is_this_machine(name))
        return next((Sourced(index, "this host's addresses") for index in ours), None)
    return None


def _launch_id(environ: Environment, grant: Grant, ranks: Ranks | None) -> Sourced[str] | None:
    """Return what names this launch; a job alone does not, for it may start several.

    A launcher's own unique id is enough: it may not pass the scheduler's variables on to all ranks.
    """
    if given := text(environ, LAUNCH_ID_VARIABLE):
        return Sourced(_as_file_name(given.value), given.source)
    if ranks is None or ranks.step_id is None:
        return None
    if ranks.step_id_is_unique:
        return Sourced(_as_file_name(f"{ranks.launcher.value}-{ranks.step_id.value}"), ranks.step_id.source)
    values, sources = [ranks.step_id.value], [ranks.step_id.source]
    if grant.attempt and grant.attempt.value:
        values, sources = [f"r{grant.attempt.value}", *values], [grant.attempt.source, *sources]
    if grant.job_id:
        values, sources = [grant.job_id.value, *values], [grant.job_id.source, *sources]
    return Sourced(_as_file_name("-".join([grant.scheduler.value, *values])), " and ".join(sources))


def _as_file_name(written: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", written)


def _scratch(environ: Environment, grant: Grant) -> Sourced[str]:
    """Return the first folder that is here: a login node's TMPDIR often reaches hosts that have no such folder."""
    for found in (grant.scratch, text(environ, "TMPDIR")):
        if found and Path(found.value).is_dir():
            return found
    return Sourced(LAST_SCRATCH, "default")
