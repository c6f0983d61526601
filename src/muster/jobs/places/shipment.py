"""What a submission sends to its hosts: the project's files, the requirements, and where they go."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path

from muster.clusters.named import SSH, FoundCluster
from muster.errors import InputError
from muster.experiment import LoadedExperiment
from muster.experiment.quantities import counted
from muster.jobs.places.preparing import Notice, Wanted
from muster.jobs.places.requirements import extras_of, required
from muster.jobs.request import Request
from muster.jobs.snapshot import Project
from muster.jobs.submission import project_of, require_trainable


@dataclass(frozen=True)
class Shipment:
    """What a submission sends to its hosts."""

    hosts: list[str]
    loaded: LoadedExperiment | None
    wanted: Wanted


def plan_shipment(request: Request, notice: Notice) -> Shipment:
    """Find out what is to be sent, and where; nothing is written or sent.

    Raises:
        InputError: if what is asked for cannot be sent.
    """
    loaded = request.load()
    _require_sendable(request, loaded)
    return pack_shipment(request, loaded, host_names(request.options.cluster), notice)


def pack_shipment(request: Request, loaded: LoadedExperiment | None, hosts: list[str], notice: Notice) -> Shipment:
    """Collect what hosts need for a request: the project's files and the requirements.

    Raises:
        InputError: if the project cannot be sent.
    """
    found = request.options.cluster
    project = project_of(request.target, loaded, request.options)
    if project is not None and loaded is not None:
        _require_inside(loaded, project)
    extras = extras_of(loaded.experiment if loaded else None, dashboard=found.cluster.dashboard)
    wanted = Wanted(
        cluster=found.cluster,
        folder=default_folder(found),
        requirements=required(extras, project.root if project else None, found.cluster.requirements),
        project=project,
        project_id=_project_id(project),
        notice=notice,
    )
    return Shipment(hosts, loaded, wanted)


def default_folder(cluster: FoundCluster) -> str:
    """Return muster's folder on the hosts of a cluster."""
    return cluster.cluster.folder or f"~/.muster/{cluster.name}"


def host_names(cluster: FoundCluster) -> list[str]:
    """Return the hosts to reach: the login node, or as many of the cluster's own as are asked for.

    Raises:
        InputError: if there are none, or fewer than that.
    """
    settings = cluster.cluster
    if settings.remote:
        return [settings.remote]
    if not settings.hosts:
        raise InputError(
            f"--on {cluster.name}: needs hosts ({cluster.source})\n"
            f'    write hosts = ["node1", "node2"] into [clusters.{cluster.name}]'
        )
    if settings.nodes and settings.nodes > len(settings.hosts):
        raise InputError(f"--nodes {settings.nodes}: {cluster.name} has {counted(len(settings.hosts), 'host')}")
    names = list(dict.fromkeys(settings.hosts[: settings.nodes or None]))
    if settings.min_nodes and settings.min_nodes > len(names):
        raise InputError(
            f"--min-nodes {settings.min_nodes}: the run has {counted(len(names), 'host')} of {cluster.name}\n"
            "    ask for fewer, or give it more hosts with --nodes"
        )
    return names


def _require_sendable(request: Request, loaded: LoadedExperiment | None) -> None:
    options = request.options
    if not options.snapshot:
        raise InputError(
            f"--no-snapshot: {options.cluster.name} has none of the project's files; they must be sent"
        )
    if options.cluster.cluster.scheduler == SSH and (request.doctor or options.seeds):
        flag = "--doctor" if request.doctor else f"--seeds {options.seeds}"
        raise InputError(f"{flag}: not over ssh, where one run has all hosts\n    submit one run for each seed")
    if loaded is not None and request.target is not None:
        require_trainable(loaded, request.target, options)


def _require_inside(loaded: LoadedExperiment, project: Project) -> None:
    """Refuse files that the hosts would not have: only the project is sent."""
    experiment = loaded.experiment
    files = [name.rpartition(":")[0] for name in (experiment.env.id, experiment.model.class_ or "")]
    paths = [Path(name) for name in files if name.endswith(".py")]
    paths += [Path(path) for path in experiment.env.paths if Path(path) != Path.cwd()]
    for path in paths:
        if not path.is_relative_to(project.root):
            raise InputError(
                f"{path}: is outside the project {project.root}, which alone is sent to the hosts\n"
                "    put it into the project, or install it there as a package: requirements = [...]"
            )


def _project_id(project: Project | None) -> str:
    """Return the name of a project's folder on the hosts: another one for each folder and machine."""
    if project is None:
        return "none"
    where = socket.gethostname().encode() + b":" + os.fsencode(project.root)
    name = re.sub(r"[^A-Za-z0-9._-]", "_", project.root.name) or "root"
    return f"{name}-{hashlib.sha256(where).hexdigest()[:8]}"
