"""Flux: `flux run`, and the shell of `flux batch` and `flux alloc`."""

from __future__ import annotations

import time

from muster.clusters.allocation.commands import ask
from muster.clusters.allocation.host_lists import expand_host_list
from muster.clusters.allocation.model import Grant, Host, Sourced
from muster.clusters.allocation.situation import Situation, hosts_named
from muster.clusters.allocation.variables import number, text


def read(situation: Situation) -> Grant | None:
    """Read a Flux job, or the instance of Flux that a batch job is."""
    environ = situation.environ
    job_id = text(environ, "FLUX_JOB_ID", "FLUX_ENCLOSING_ID")
    if job_id is None:
        return None
    hosts = _hosts(situation)
    size = number(environ, "FLUX_JOB_NNODES")
    return Grant(
        Sourced("flux", job_id.source),
        hosts or situation.this_host_alone(),
        knows_all_hosts=hosts is not None or (size is not None and size.value == 1),
        job_id=job_id,
        end_time=_end_time(situation),
        scratch=text(environ, "FLUX_JOB_TMPDIR"),
    )


def _hosts(situation: Situation) -> Sourced[tuple[Host, ...]] | None:
    """The environment has no names of hosts; the local broker knows them."""
    answer = ask(situation.environ, "flux", "hostlist", "local") if situation.may_ask else None
    return hosts_named(expand_host_list(answer, "flux hostlist"), "flux hostlist") if answer else None


def _end_time(situation: Situation) -> Sourced[float] | None:
    answer = ask(situation.environ, "flux", "job", "timeleft") if situation.is_first else None
    return Sourced(time.time() + int(answer), "flux job timeleft") if answer and answer.isdigit() else None
