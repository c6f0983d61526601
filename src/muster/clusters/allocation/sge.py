"""Grid Engine: SGE and its descendants."""

from __future__ import annotations

from muster.clusters.allocation.host_lists import sum_slots
from muster.clusters.allocation.model import Grant, Sourced
from muster.clusters.allocation.situation import Situation, hosts_named, hosts_with_slots, read_host_file
from muster.clusters.allocation.variables import Environment, number, text


def read(situation: Situation) -> Grant | None:
    """Read a Grid Engine job: of a parallel environment, or of one host."""
    environ = situation.environ
    job_id = text(environ, "JOB_ID")
    if job_id is None or text(environ, "PE_HOSTFILE", "SGE_ROOT", "SGE_CELL") is None:
        return None
    total = number(environ, "NSLOTS")
    is_parallel = "PE_HOSTFILE" in environ
    # In a rank that Grid Engine started, NSLOTS counts its own host's slots alone.
    slots = read_host_file(situation, "PE_HOSTFILE", sum_slots, total if situation.ranks is None else None)
    if slots:
        hosts = hosts_with_slots(slots)
    elif is_parallel:
        hosts = situation.this_host_alone()
    else:
        hosts = hosts_named([situation.host_name], "this host's name", total)
    return Grant(
        Sourced("sge", job_id.source),
        hosts,
        knows_all_hosts=slots is not None or not is_parallel,
        job_id=_with_array_index(environ, job_id),
    )


def _with_array_index(environ: Environment, job_id: Sourced[str]) -> Sourced[str]:
    index = text(environ, "SGE_TASK_ID")
    if index is None or index.value == "undefined":
        return job_id
    return Sourced(f"{job_id.value}.{index.value}", job_id.source)
