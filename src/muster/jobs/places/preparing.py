"""Making hosts ready for a run, all at once: the connection, the environment, muster, and the project's files."""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import muster
from muster.clusters.named import NamedCluster
from muster.errors import JobError
from muster.jobs.places.connection import Connection
from muster.jobs.places.host import ENVIRONMENT_SECONDS, Host, HostError
from muster.jobs.places.parcel import RUNS
from muster.jobs.places.requirements import MINOR, Requirements, muster_id, package_folder, public_version
from muster.jobs.places.wheels import collect_wheels
from muster.jobs.snapshot import Project

Notice = Callable[[str], None]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Wanted:
    """What the hosts of a cluster are to have."""

    cluster: NamedCluster
    folder: str
    """Where muster keeps its files on each host; may begin with `~`."""
    requirements: Requirements
    project: Project | None
    project_id: str
    notice: Notice


@dataclass(frozen=True)
class ReadyHost:
    """A host on which a run can be started."""

    host: Host
    facts: dict[str, Any]
    """What was found there; see `host_agent.look`."""
    python: str
    """That of muster's own environment there."""
    runs: str
    """Folder of its runs: its own, also where several hosts share muster's folder."""

    @property
    def name(self) -> str:
        """As ssh knows it."""
        return self.host.name

    @property
    def folder(self) -> str:
        """Muster's folder there, in full."""
        return str(self.facts["folder"])


class Failures(dict[str, JobError]):
    """Hosts that are not fit, and why."""

    def lines(self) -> str:
        """Return a line for each."""
        return "".join(f"\n  {reason}" for reason in self.values())

    def first(self) -> JobError:
        """Return why the first of them is not."""
        return next(iter(self.values()))


def for_each(hosts: Iterable[Host], work: Callable[[Host], Result], failures: Failures) -> dict[Host, Result]:
    """Do something on all hosts at once; those that fail are added to the failures, the others continue."""

    def attempt(host: Host) -> tuple[Host, Result | JobError]:
        try:
            return host, work(host)
        except JobError as error:
            return host, error

    hosts = list(hosts)
    with ThreadPoolExecutor(max_workers=max(1, len(hosts))) as pool:
        results = list(pool.map(attempt, hosts))
    for host, result in results:
        if isinstance(result, JobError):
            failures[host.name] = result
    return {host: result for host, result in results if not isinstance(result, JobError)}


def connect(names: Sequence[str], folder: str, cluster: NamedCluster, failures: Failures) -> list[Host]:
    """Open the connections: first all that need nobody, then those for which ssh asks, one after another."""
    hosts = [
        Host(Connection(name, cluster.setup, is_login=cluster.login_shell is not False), folder) for name in names
    ]
    closed = Failures()
    opened = for_each(hosts, lambda host: host.connection.open(may_ask=False), closed)
    if not sys.stdin.isatty():
        failures.update(closed)
        return list(opened)
    for host in hosts:
        if host.name not in closed:
            continue
        try:
            host.connection.open(may_ask=True)
            opened[host] = None
        except JobError as error:
            failures[host.name] = error
    return [host for host in hosts if host in opened]


def prepare(hosts: Sequence[Host], wanted: Wanted, failures: Failures) -> list[ReadyHost]:
    """Make hosts ready; those that cannot be are added to the failures."""
    found = _look(hosts, wanted, failures)
    writers = _writers(found, wanted, failures)
    lacking = [host for host in writers if not found[host]["has_environment"]]
    wheels = ""
    if lacking and wanted.cluster.wheels and not wanted.cluster.environment:
        wheels = f"wheels/{wanted.requirements.id}"
        collected = collect_wheels(wanted.requirements, found[lacking[0]], wanted.notice)
        for_each(lacking, lambda host: _push(host, collected, f"{found[host]['folder']}/{wheels}"), failures)
    made = for_each(
        [host for host in writers if host.name not in failures],
        lambda host: _make_ready(host, found[host], wanted, wheels),
        failures,
    )
    return _ready(hosts, found, writers, made, failures)


def _ready(
    hosts: Sequence[Host],
    found: dict[Host, dict[str, Any]],
    writers: dict[Host, list[int]],
    made: dict[Host, str],
    failures: Failures,
) -> list[ReadyHost]:
    """Return the hosts that have all they need, brought to them or to a host that they share files with."""
    numbers = {host: number for number, host in enumerate(hosts)}
    pythons = {number: made[host] for host in made for number in writers[host]}
    ready: list[ReadyHost] = []
    for host, facts in found.items():
        if host.name in failures:
            continue
        if (python := pythons.get(numbers[host])) is None:
            failures[host.name] = HostError(f"{host.name}: the host that it shares its files with is not ready")
        elif ready and facts["folder"] != ready[0].folder:
            failures[host.name] = HostError(
                f"{host.name}: muster's folder is {facts['folder']}, but {ready[0].folder} on {ready[0].name}\n"
                '    code must have one path on all hosts; give one that all have: folder = "/data/me/muster"'
            )
        else:
            runs = f"{facts['folder']}/{RUNS if host in writers else f'members/{host.name}'}"
            ready.append(ReadyHost(host, facts, python, runs))
    return ready


def _look(hosts: Sequence[Host], wanted: Wanted, failures: Failures) -> dict[Host, dict[str, Any]]:
    """See what the hosts have; refuse those that differ in what must be the same everywhere."""
    cluster, nonce = wanted.cluster, secrets.token_hex(8)
    order = {
        "nonce": nonce,
        "environment": cluster.environment,
        "python": cluster.python,
        "minor": MINOR,
        "environment_id": wanted.requirements.id,
        "muster_id": _muster_id(wanted),
        "port_range": ports_of(cluster),
        "folders": [
            f"projects/{wanted.project_id}",
            f"wheels/{wanted.requirements.id}",
            f"muster/{_muster_id(wanted)}/lib/python{MINOR}/site-packages",
        ],
    }
    numbers = {host: str(number) for number, host in enumerate(hosts)}

    def look(host: Host) -> dict[str, Any]:
        facts = host.ask("look", {**order, "number": numbers[host]})
        _require_fit(host, facts, wanted)
        return {**facts, "nonce": nonce}

    return for_each(hosts, look, failures)


def _require_fit(host: Host, facts: dict[str, Any], wanted: Wanted) -> None:
    if not facts["has_rsync"]:
        raise HostError(f"{host.name}: rsync is not installed there, and the project's files are sent with it")
    if facts["version"].split(".")[:2] != MINOR.split("."):
        raise HostError(
            f"{host.name}: {facts['python']} is Python {facts['version']}, expected {MINOR} as here\n"
            f'    install Python {MINOR} there, or say where it is: python = "/path/to/python{MINOR}"'
        )
    ray = public_version("ray")
    if wanted.cluster.environment and _minor(facts["ray"]) != _minor(ray):
        raise HostError(
            f"{host.name}: environment = {wanted.cluster.environment!r} has "
            f"{'Ray ' + facts['ray'] if facts['ray'] else 'no Ray'}, expected {ray} as here"
        )


def _minor(version: str | None) -> list[str]:
    return (version or "").split(".")[:2]


def _writers(found: dict[Host, dict[str, Any]], wanted: Wanted, failures: Failures) -> dict[Host, list[int]]:
    """Return the hosts to write to, each with all that see its files: of hosts that share a home, the first."""
    nonces = {host: facts["nonce"] for host, facts in found.items()}
    seen = for_each(found, lambda host: host.ask("sharing", {"nonce": nonces[host]})["numbers"], failures)
    writers: dict[Host, list[int]] = {}
    covered: set[int] = set()
    for host, numbers in seen.items():
        if not covered & set(numbers):
            writers[host] = numbers
            covered |= set(numbers)
    return writers


def _make_ready(host: Host, facts: dict[str, Any], wanted: Wanted, wheels: str) -> str:
    """Bring environment, muster and project to one host; return its Python."""
    if wanted.project is not None:
        push_project(host, facts["folder"], wanted.project, wanted.project_id)
    python, packages = facts["python"], facts["packages"]
    if not wanted.cluster.environment:
        packages = [_environment(host, facts, wanted, wheels)]
    folder = f"{facts['folder']}/muster/{_muster_id(wanted)}"
    if facts["has_muster"]:
        return f"{folder}/bin/python"
    site = f"{folder}/lib/python{MINOR}/site-packages"
    host.connection.rsync(
        "--archive", "--delete", "--exclude=__pycache__", f"{package_folder()}/", f"{host.name}:{site}/muster/"
    )
    order = {
        "muster_id": _muster_id(wanted),
        "python": python,
        "packages": packages,
        "version": muster.__version__,
    }
    host.ask("make_muster", order)
    return f"{folder}/bin/python"


def _environment(host: Host, facts: dict[str, Any], wanted: Wanted, wheels: str) -> str:
    """Make the environment, unless it is there; return the folder of its packages."""
    path = f"{facts['folder']}/environments/{wanted.requirements.id}"
    if not facts["has_environment"]:
        wanted.notice(f"{host.name}: installing the requirements, which takes a while the first time")
        order = {
            "environment_id": wanted.requirements.id,
            "requirements": wanted.requirements.text,
            "python": facts["python"],
            "wheels": wheels,
            "project": f"{facts['folder']}/projects/{wanted.project_id}" if wanted.project else None,
        }
        host.ask("make_environment", order, seconds=ENVIRONMENT_SECONDS)
    return f"{path}/lib/python{MINOR}/site-packages"


def push_project(host: Host, folder: str, project: Project, project_id: str) -> None:
    """Send the project's files, of which only what has changed since the last time travels."""
    target = f"{folder}/projects/{project_id}"
    listed = b"\0".join(b"./" + os.fsencode(path) for path in project.files if not _leads_out(project, path))
    host.connection.rsync(
        "--archive",
        "--recursive",
        "--copy-unsafe-links",
        "--from0",
        "--files-from=-",
        f"{project.root}/",
        f"{host.name}:{target}/",
        listed=listed,
    )


def _leads_out(project: Project, path: Path) -> bool:
    """Whether a link leads to a folder outside of the project, all of which would be sent with it."""
    source = project.root / path
    return source.is_symlink() and source.is_dir() and not source.resolve().is_relative_to(project.root)


def _push(host: Host, collected: Path, target: str) -> None:
    """Send the wheels to a host without a package index."""
    host.connection.rsync("--archive", f"{collected}/", f"{host.name}:{target}/")


def _muster_id(wanted: Wanted) -> str:
    """Return the name of muster's own environment: this muster, over the packages that it is to see."""
    below = wanted.cluster.environment or wanted.requirements.id
    return f"{muster_id()}-{hashlib.sha256(below.encode()).hexdigest()[:8]}"


def ports_of(cluster: NamedCluster) -> list[int] | None:
    """Return the lowest and the highest port that a cluster lets be used; None for any."""
    if cluster.port_range is None:
        return None
    low, _, high = cluster.port_range.partition("-")
    return [int(low), int(high)]
