"""Removing what muster has put on the hosts of a cluster."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

from muster.clusters.named import FoundCluster
from muster.errors import JobError
from muster.jobs.places.host import Host, HostError
from muster.jobs.places.parcel import RUNS
from muster.jobs.places.preparing import Failures, connect, for_each
from muster.jobs.places.record import last_line
from muster.jobs.places.shipment import default_folder
from muster.jobs.states import ENDED_STATES


@dataclass(frozen=True)
class Remains:
    """What there is on a host."""

    host: Host
    runs: dict[str, str]
    """States of the runs whose folders would be removed."""


def find_remains(cluster: FoundCluster) -> tuple[list[Remains], Failures]:
    """Look what a cluster's hosts have of ours, and which hosts cannot be asked."""
    failures = Failures()
    names = [cluster.cluster.remote] if cluster.cluster.remote else list(cluster.cluster.hosts)
    hosts = connect(names, default_folder(cluster), cluster.cluster, failures)
    found = for_each(hosts, _runs, failures)
    return [Remains(host, runs) for host, runs in found.items()], failures


def remove_remains(remains: list[Remains], cluster: FoundCluster) -> tuple[list[str], Failures]:
    """Remove all of it; return the hosts on which there was any.

    Raises:
        JobError: naming the runs that have not ended; nothing is removed then.
    """
    alive = [
        f"{name} is {state} on {one.host.name}"
        for one in remains
        for name, state in one.runs.items()
        if state not in ENDED_STATES
    ]
    if alive:
        raise JobError(
            f"clusters clean {cluster.name}: nothing was removed, for runs have not ended: {'; '.join(alive)}\n"
            "    wait for them, or end them with `muster cancel`"
        )
    failures = Failures()
    order = {"is_default": cluster.cluster.folder is None}
    answers = for_each([one.host for one in remains], lambda host: host.ask("clean", order), failures)
    return [host.name for host, answer in answers.items() if answer["removed"]], failures


def _runs(host: Host) -> dict[str, str]:
    """Return the runs on a host, asked by any muster that was sent there; none if there is no muster."""
    folder = host.ask("whereabouts", {})
    if folder["muster"] is None:
        return {}
    words = [folder["muster"], "status", "--runs-dir", f"{folder['folder']}/{RUNS}", "--json"]
    done = host.connection.run(f"exec {shlex.join(words)}")
    try:
        states = json.loads(last_line(done.stdout.decode(errors="replace")))
    except ValueError:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["no answer"]
        raise HostError(f"{host.name}: its runs cannot be listed: {said[-1]}") from None
    return {str(state["run"]).rpartition("/")[2]: str(state["state"]) for state in states}
