"""PBS: PBS Professional, OpenPBS and Torque."""

from __future__ import annotations

from muster.clusters.allocation.host_lists import count_lines
from muster.clusters.allocation.model import Grant, Sourced
from muster.clusters.allocation.situation import Situation, hosts_named, hosts_with_slots, read_host_file
from muster.clusters.allocation.variables import number, text


def read(situation: Situation) -> Grant | None:
    """Read a PBS job.

    A line of the node file is a CPU under Torque, but an MPI process under PBS Professional, which tells the
    CPUs as NCPUS.
    """
    environ = situation.environ
    job_id = text(environ, "PBS_JOBID")
    if job_id is None:
        return None
    lines = read_host_file(situation, "PBS_NODEFILE", count_lines, number(environ, "PBS_NP"))
    if lines is None:
        hosts = situation.this_host_alone()
    elif text(environ, "PBS_NUM_PPN"):
        hosts = hosts_with_slots(lines)
    else:
        hosts = hosts_named(lines.value, lines.source, number(environ, "NCPUS"))
    return Grant(
        Sourced("pbs", job_id.source),
        hosts,
        knows_all_hosts=lines is not None,
        job_id=job_id,
    )
