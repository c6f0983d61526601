"""Submitting a run to hosts that are reached by ssh: a login node's scheduler, or machines of one's own."""

from __future__ import annotations

import fcntl
import json
import secrets
import shlex
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from muster.clusters.named import SSH, FoundCluster, NamedCluster
from muster.errors import JobError
from muster.jobs.places.connection import UnreachableError, require_programs, sockets_folder
from muster.jobs.places.host import HostError
from muster.jobs.places.parcel import addressed, packed
from muster.jobs.places.preparing import Failures, Notice, ReadyHost, connect, for_each, ports_of, prepare
from muster.jobs.places.record import Elsewhere, HostRecord, RunElsewhere, last_line, read_record, write_record
from muster.jobs.places.shipment import Shipment, default_folder, plan_shipment
from muster.jobs.places.ssh import SshPlace
from muster.jobs.request import Request
from muster.jobs.submission import run_base
from muster.jobs.submission_plan import Part
from muster.jobs.submitted_folder import choose_folder
from muster.runs.folder import ELSEWHERE

START_SECONDS = 120.0
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Sent:
    """A run that was submitted elsewhere."""

    path: Path
    record: Elsewhere
    jobs: list[str]
    failures: Failures = field(default_factory=Failures)
    member: str = ""
    """The first of several runs, such as `seed-0`."""


class UncertainError(JobError):
    """A host did not answer while the run was started there, so it may have started."""


@dataclass(frozen=True)
class Departure:
    """A run on its way: its folder here, its cluster, where it was before, and the hosts that have failed."""

    path: Path
    cluster: FoundCluster
    earlier: Elsewhere | None
    notice: Notice
    failures: Failures = field(default_factory=Failures)

    @property
    def name(self) -> str:
        """The run's name there; its folder here may have been renamed since it was submitted first."""
        return Path(self.earlier.first.folder).name if self.earlier else self.path.name

    def withdraw(self) -> None:
        """Leave the folder here as it was before."""
        if self.earlier is not None:
            write_record(self.path, self.earlier)
            return
        (self.path / ELSEWHERE).unlink(missing_ok=True)
        with suppress(OSError):
            self.path.rmdir()
            self.path.parent.rmdir()


def submit_by_ssh(request: Request, notice: Notice) -> Sent:
    """Send a run to its hosts and start it there, detached.

    Raises:
        InputError: if what is asked for cannot be sent.
        JobError: if too few hosts are ready, naming each that is not.
    """
    require_programs()
    if request.again is not None:
        path = request.again.path
        record = read_record(path)
        found = FoundCluster(record.cluster, record.settings, str(path / ELSEWHERE))
        departure = Departure(path, found, record, notice)
        with _withdrawn_on_failure(departure):
            return _continue(request, departure, record)
    shipment = plan_shipment(request, notice)
    with _one_at_a_time(shipment.wanted.project_id):
        path = choose_folder(*run_base(request.command, shipment.loaded, request.options))
        earlier = read_record(path) if (path / ELSEWHERE).exists() else None
        departure = Departure(path, request.options.cluster, earlier, notice)
        with _withdrawn_on_failure(departure):
            sent = _submit(request, departure, shipment)
    seeds = shipment.loaded if request.options.seeds else None
    return replace(sent, member=f"seed-{seeds.experiment.seed}") if seeds else sent


@contextmanager
def _withdrawn_on_failure(departure: Departure) -> Iterator[None]:
    """Leave no trace of a run that was not started; one that may have been stays known."""
    try:
        yield
    except (UncertainError, KeyboardInterrupt):
        raise
    except BaseException:
        departure.withdraw()
        raise


def _submit(request: Request, departure: Departure, shipment: Shipment) -> Sent:
    wanted, names, earlier, failures = shipment.wanted, shipment.hosts, departure.earlier, departure.failures
    if earlier is not None:
        # The results are on the first host of the run; it stays the first.
        names = [earlier.host, *(name for name in names if name != earlier.host)]
    hosts = connect(names, wanted.folder, wanted.cluster, failures)
    ready = prepare(hosts, wanted, failures)
    _require_enough(departure, names, ready)
    return _start(
        departure, ready, packed(request, departure.name, shipment.loaded, wanted.project, wanted.project_id)
    )


def _continue(request: Request, departure: Departure, record: Elsewhere) -> Sent:
    """Start a run again on its hosts, as it was submitted."""
    found, failures, names = departure.cluster, departure.failures, list(record.hosts)
    hosts = connect(names, default_folder(found), found.cluster, failures)
    met = for_each(hosts, lambda host: host.ask("meeting", {"port_range": ports_of(found.cluster)}), failures)
    ready = []
    for host, met_at in met.items():
        known = record.hosts[host.name]
        runs = str(Path(known.folder).parent)
        facts = {**met_at, "folder": runs, "hostname": known.hostname}
        ready.append(ReadyHost(host, facts, known.python, runs))
    _require_enough(departure, names, ready)
    return _start(departure, ready, packed(request, departure.name, None, None, ""))


def _start(departure: Departure, ready: Sequence[ReadyHost], parcel: Mapping[str, Any]) -> Sent:
    """Start the run on all hosts that are ready; if one then fails, the others start again without it."""
    found, failures = departure.cluster, departure.failures
    record = _record(departure, ready)
    write_record(departure.path, record)
    parts = _parts(departure.name, ready) if found.cluster.scheduler == SSH else [None]
    parcels = {
        one.host: (one, addressed(parcel, one.folder, one.runs, _there(found), part))
        for one, part in zip(ready, parts, strict=True)
    }
    lost = Failures()
    started = for_each(parcels, lambda host: _receive(*parcels[host]), lost)
    if not lost:
        return Sent(departure.path, record, started[ready[0].host], failures)
    if any(isinstance(error, UnreachableError) for error in lost.values()):
        raise UncertainError(
            f"--on {found.name}: the run may have started, for a host did not answer{lost.lines()}\n"
            f"    muster status {departure.path.name} shows it, muster cancel {departure.path.name} ends it"
        )
    _undo(record, departure, [host.name for host in started])
    failures.update(lost)
    left = [one for one in ready if one.name not in lost]
    _require_enough(departure, [one.name for one in ready], left)
    return _start(departure, left, parcel)


def _parts(name: str, ready: Sequence[ReadyHost]) -> list[Part | None]:
    """Give each host its part in the launch, and all of them one secret."""
    launch_id, token = f"{name}-{secrets.token_hex(4)}", secrets.token_hex(32)
    address = _head_address(ready)
    return [Part(rank, len(ready), launch_id, token, address) for rank in range(len(ready))]


def _receive(ready: ReadyHost, parcel: dict[str, Any]) -> list[str]:
    """Have the request carried out on a host; return the ids of its jobs."""
    line = f"exec {shlex.quote(ready.python)} -P -m muster receive"
    done = ready.host.connection.run(line, json.dumps(parcel).encode() + b"\n", seconds=START_SECONDS)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().removeprefix("error: ")
        error = HostError(f"{ready.name}: {said or f'exit code {done.returncode}'}")
        error.exit_code = done.returncode
        raise error
    jobs: list[str] = json.loads(last_line(done.stdout.decode(errors="replace")))["jobs"]
    return jobs


def _undo(record: Elsewhere, departure: Departure, names: Sequence[str]) -> None:
    """End what was started on hosts whose fellows have failed."""
    kept = replace(record, hosts={name: record.hosts[name] for name in names})
    if names:
        with suppress(JobError):
            SshPlace(kept).cancel(RunElsewhere(departure.path, kept), departure.notice)


def _there(found: FoundCluster) -> FoundCluster:
    """Return the cluster as its own hosts see it: nobody is to be reached from there."""
    away = {"remote", "hosts", "folder", "environment", "requirements", "wheels"}
    away |= {"nodes"} if found.cluster.scheduler == SSH else set()
    away |= set() if found.cluster.container else {"python"}
    table = found.cluster.model_dump(exclude_unset=True, exclude=away)
    return replace(found, cluster=NamedCluster.model_validate(table))


def _record(departure: Departure, ready: Sequence[ReadyHost]) -> Elsewhere:
    found = departure.cluster
    return Elsewhere(
        kind="ssh",
        cluster=found.name,
        scheduler=str(found.cluster.scheduler),
        hosts={
            one.name: HostRecord(f"{one.runs}/{departure.name}", one.python, one.facts["hostname"])
            for one in ready
        },
        table=found.cluster.model_dump(exclude_unset=True, exclude_none=True, mode="json"),
    )


def _head_address(ready: Sequence[ReadyHost]) -> str:
    """Return where the ranks meet: an address that the head itself has, if ssh's own configuration names one."""
    head = ready[0]
    if len(ready) == 1:
        return f"{_LOOPBACK}:{head.facts['port']}"
    own, name = head.facts["addresses"], head.host.connection.configured.get("hostname", head.name)
    known = []
    with suppress(OSError):
        known = [address for address in socket.gethostbyname_ex(name)[2] if address in own]
    return f"{(known or own or [name])[0]}:{head.facts['port']}"


def _require_enough(departure: Departure, names: Sequence[str], ready: Sequence[ReadyHost]) -> None:
    """Refuse to begin with fewer hosts than are asked for, or without the one that has the checkpoints."""
    found, failures, earlier = departure.cluster, departure.failures, departure.earlier
    if earlier is not None and earlier.host not in [one.name for one in ready]:
        raise JobError(
            f"--on {found.name}: {earlier.host} is not ready, but has the run's checkpoints{failures.lines()}"
        )
    least = min(found.cluster.min_nodes or len(names), len(names))
    if len(ready) < least or not ready:
        if len(names) == 1:
            raise failures.first()
        hint = f"\n    --min-nodes {len(ready)} runs without them" if ready else ""
        raise JobError(
            f"--on {found.name}: {len(ready)} of {len(names)} hosts are ready, expected at least {least}"
            f"{failures.lines()}{hint}"
        )


@contextmanager
def _one_at_a_time(project_id: str) -> Iterator[None]:
    """Let no other submission from here change the project's files on the hosts until this one has copied them."""
    with (sockets_folder() / f"{project_id}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
