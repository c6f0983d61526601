"""Grid Engine: SGE and its descendants."""

from __future__ import annotations

from muster.clusters.allocation.host_lists import sum_slots
from muster.clusters.allocation.model import Grant, Host, Sourced
from muster.clusters.allocation.situation import Situation, hosts_with_slots, read_host_file
from muster.clusters.allocation.variables import Environment, number, text


def read(situation: Situation) -> Grant | None:
    """Read a Grid Engine job: of a parallel environment, or of one host."""
    environ = situation.environ
    job_id = text(environ, "JOB_ID")
    if job_id is None or text(environ, "PE_HOSTFILE", "SGE_ROOT", "SGE_CELL") is None:
        return None
    slots = read_host_file(situation, "PE_HOSTFILE", sum_slots, number(environ, "NSLOTS"))
    alone = Sourced((Host(situation.host_name, number(environ, "NSLOTS")),), "this host's name")
    return Grant(
        Sourced("sge", job_id.source),
        hosts_with_slots(slots)
        if slots
        else alone
        if "PE_HOSTFILE" not in environ
        else situation.this_host_alone(),
        knows_all_hosts=slots is not None or "PE_HOSTFILE" not in environ,
        job_id=_with_array_index(environ, job_id),
    )


def _with_array_index(environ: Environment, job_id: Sourced[str]) -> Sourced[str]:
    index = text(environ, "SGE_TASK_ID")
    if index is None or index.value == "undefined":
        return job_id
    return Sourced(f"{job_id.value}.{index.value}", job_id.source)
