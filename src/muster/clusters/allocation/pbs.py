"""PBS: PBS Professional, OpenPBS and Torque."""

from __future__ import annotations

from muster.clusters.allocation.host_lists import count_lines
from muster.clusters.allocation.model import Grant, Host, Sourced
from muster.clusters.allocation.pbs_server import PbsJob, ask_job
from muster.clusters.allocation.situation import Situation, hosts_named, hosts_with_slots, read_host_file
from muster.clusters.allocation.variables import number, text


def read(situation: Situation) -> Grant | None:
    """Read a PBS job.

    The node file names the hosts; the server knows their shares and the job's end. Only the first rank asks it,
    for a thousand must not ask at once: the head of a launch hands the shares on to the other hosts.
    """
    environ = situation.environ
    job_id = text(environ, "PBS_JOBID")
    if job_id is None:
        return None
    job = ask_job(environ, job_id.value) if situation.is_first else None
    lines = read_host_file(situation, "PBS_NODEFILE", count_lines, number(environ, "PBS_NP"))
    return Grant(
        Sourced("pbs", job_id.source),
        _hosts(situation, lines, job) if lines else situation.this_host_alone(),
        knows_all_hosts=lines is not None,
        are_handed_on=job is not None,
        job_id=job_id,
        end_time=job.end_time if job else None,
    )


def _hosts(situation: Situation, lines: Sourced[dict[str, int]], job: PbsJob | None) -> Sourced[tuple[Host, ...]]:
    """Return the hosts of the node file, a line of which is a CPU under Torque, an MPI process under the others.

    If the server does not answer, the CPUs of the first chunk, NCPUS, count for every host. On other ranks than
    the first they do not: launchers pass the first host's variables on.
    """
    if job is not None:
        return Sourced(tuple(job.host(name) for name in lines.value), lines.source)
    if text(situation.environ, "PBS_NUM_PPN"):
        return hosts_with_slots(lines)
    is_other = situation.ranks is not None and situation.ranks.rank.value > 0
    return hosts_named(lines.value, lines.source, None if is_other else number(situation.environ, "NCPUS"))
