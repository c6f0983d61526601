"""Launchers that start ranks inside a job: jsrun, aprun and Cray's mpiexec."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.fakes.core import RefusedError, Site
from tests.fakes.jobs import Job
from tests.fakes.options import UnknownOptionError, last, parse
from tests.fakes.work import Ranks


@dataclass(frozen=True)
class Place:
    """Where a rank is among all."""

    rank: int
    num_ranks: int
    local_rank: int
    num_local_ranks: int
    host_index: int
    launch_id: str


@dataclass(frozen=True)
class Launcher:
    """A launcher's options and the variables in which it tells a rank about itself."""

    name: str
    total: str
    per_host: str
    variables: Callable[[Place], Mapping[str, str | int]]
    with_value: str
    """Further options that take a value, which the fake only checks for their names."""
    without: str = ""


JSRUN = Launcher(
    "jsrun",
    total="-n",
    per_host="-r",
    variables=lambda place: {
        "JSM_NAMESPACE_RANK": place.rank,
        "JSM_NAMESPACE_SIZE": place.num_ranks,
        "JSM_NAMESPACE_LOCAL_RANK": place.local_rank,
        "JSM_NAMESPACE_LOCAL_SIZE": place.num_local_ranks,
        "PMIX_NAMESPACE": place.launch_id,
        "PMIX_RANK": place.rank,
    },
    with_value="-n -r -a -c -g -b -d -l -E -D",
)
APRUN = Launcher(
    "aprun",
    total="-n",
    per_host="-N",
    variables=lambda place: {
        "ALPS_APP_PE": place.rank,
        "ALPS_APP_ID": place.launch_id,
        "PMI_SIZE": place.num_ranks,
    },
    with_value="-n -N -d -j -S -cc --cc -e --env -L -m -t",
    without="-b -q",
)
PALS_MPIEXEC = Launcher(
    "mpiexec",
    total="-n",
    per_host="--ppn",
    variables=lambda place: {
        "PALS_RANKID": place.rank,
        "PALS_LOCAL_RANKID": place.local_rank,
        "PALS_LOCAL_SIZE": place.num_local_ranks,
        "PALS_NODEID": place.host_index,
        "PALS_APID": place.launch_id,
        "PMI_RANK": place.rank,
        "PMI_SIZE": place.num_ranks,
        "PMI_LOCAL_RANK": place.local_rank,
        "PMI_LOCAL_SIZE": place.num_local_ranks,
    },
    with_value="-n -np --ppn -ppn --depth -d --cpu-bind --mem-bind --env --hostfile",
    without="--no-transfer",
)


def run(launcher: Launcher, site: Site, job: Job, words: list[str]) -> int:
    """Start the ranks that a launcher's command line asks for, and return the first exit code that is not 0."""
    try:
        options, command = parse(words, launcher.with_value, launcher.without)
    except UnknownOptionError as error:
        raise RefusedError(f"{launcher.name}: unrecognized option '{error.option}'") from None
    num_ranks, per_host = int(last(options, launcher.total, "1")), int(last(options, launcher.per_host, "1"))
    hosts = list(dict.fromkeys(job.hosts))
    if not command:
        raise RefusedError(f"{launcher.name}: no executable given")
    if num_ranks > per_host * len(hosts):
        raise RefusedError(
            f"{launcher.name}: {num_ranks} ranks do not fit on {len(hosts)} hosts with {per_host} each"
        )
    ranks, launch_id = Ranks(), secrets.token_hex(4)
    for rank in range(num_ranks):
        index, local_rank = divmod(rank, per_host)
        place = Place(rank, num_ranks, local_rank, min(per_host, num_ranks - index * per_host), index, launch_id)
        variables = {name: str(value) for name, value in launcher.variables(place).items()}
        environment = {**os.environ, **variables}
        ranks.start(site, hosts[index], command, environment, os.getcwd())  # noqa: PTH109
    return ranks.wait()
