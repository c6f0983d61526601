"""Without a queue: a list of hosts under ssh, an mpirun of its own, or this machine alone."""

from __future__ import annotations

from muster.clusters.allocation.host_lists import expand_host_list
from muster.clusters.allocation.model import Grant, Sourced
from muster.clusters.allocation.situation import Situation, hosts_named
from muster.clusters.allocation.variables import text
from muster.environment_variables import HOSTS_VARIABLE

SSH = "ssh"


def read_ssh(situation: Situation) -> Grant | None:
    """Read the hosts that the user names."""
    hosts = text(situation.environ, HOSTS_VARIABLE)
    if hosts is None:
        return None
    return Grant(
        Sourced(SSH, HOSTS_VARIABLE),
        hosts_named(expand_host_list(hosts.value, HOSTS_VARIABLE), HOSTS_VARIABLE),
    )


def read_mpi(situation: Situation) -> Grant | None:
    """Read what an mpirun outside any queue tells: how many ranks, but not on which hosts."""
    ranks = situation.ranks
    if ranks is None:
        return None
    in_all, here = ranks.num_ranks, ranks.num_local_ranks
    return Grant(
        Sourced("mpi", ranks.launcher.source),
        situation.this_host_alone(),
        knows_all_hosts=in_all is not None and here is not None and in_all.value == here.value,
    )


def read_local(situation: Situation) -> Grant:
    """Take this machine as the whole allocation."""
    return Grant(Sourced("local", "no scheduler's variables"), situation.this_host_alone())
