"""Cobalt, whose job script runs on a service node, or on the first host of the job."""

from __future__ import annotations

import re

from muster.clusters.allocation.host_lists import count_lines, expand_host_list
from muster.clusters.allocation.model import Grant, Host, Sourced
from muster.clusters.allocation.situation import Situation, hosts_named, read_host_file
from muster.clusters.allocation.variables import Environment, moment, number, text
from muster.errors import AllocationError

_CRAY_NODES = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
_CRAY_NAME = "nid{:05d}"


def read(situation: Situation) -> Grant | None:
    """Read a Cobalt job."""
    environ = situation.environ
    job_id = text(environ, "COBALT_JOBID")
    if job_id is None:
        return None
    lines = read_host_file(situation, "COBALT_NODEFILE", count_lines)
    hosts = hosts_named(lines.value, lines.source) if lines else _cray_hosts(environ)
    size = number(environ, "COBALT_JOBSIZE")
    if hosts and size and size.value != len(hosts.value):
        raise AllocationError(
            f"{hosts.source} names {len(hosts.value)} hosts, but {size.source} says {size.value}: "
            "the list is cut short or of another job"
        )
    return Grant(
        Sourced("cobalt", job_id.source),
        hosts or situation.this_host_alone(),
        knows_all_hosts=hosts is not None,
        job_id=job_id,
        end_time=moment(environ, "COBALT_ENDTIME"),
    )


def _cray_hosts(environ: Environment) -> Sourced[tuple[Host, ...]] | None:
    """On a Cray XC the partition's name is the list of its node numbers."""
    partition = text(environ, "COBALT_PARTNAME")
    if partition is None or not _CRAY_NODES.fullmatch(partition.value):
        return None
    numbers = expand_host_list(f"[{partition.value}]", partition.source)
    return hosts_named((_CRAY_NAME.format(int(number)) for number in numbers), partition.source)
