"""A request on its way to the host that carries it out: one line of JSON, after the project's files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from muster.clusters.named import FoundCluster, NamedCluster
from muster.experiment import LoadedExperiment
from muster.files.ownership import OWN_FOLDER
from muster.jobs.folder import JobFolder
from muster.jobs.request import Request
from muster.jobs.snapshot import Project
from muster.jobs.submission_plan import Part, SubmitOptions
from muster.runs.files import write_json

RUNS = "runs"
PROJECTS = "projects"


def packed(
    request: Request,
    name: str,
    loaded: LoadedExperiment | None,
    project: Project | None,
    project_id: str,
) -> dict[str, Any]:
    """Return what every host is told of a request; where things are there is left to `unpacked`."""
    options = request.options
    return {
        "name": name,
        "target": _target(request, loaded, project),
        "command": list(request.command),
        "settings": list(request.settings),
        "doctor": request.doctor,
        "again": request.again is not None,
        "resume": options.resume,
        "max_jobs": options.max_jobs,
        "seeds": options.seeds,
        "project": None
        if project is None
        else {
            "id": project_id,
            "files": [os.fsencode(path).decode("utf-8", "surrogateescape") for path in project.files],
            "commit": project.commit,
            "changes": project.changes,
            "folder": _inside(Path.cwd(), project) or ".",
        },
    }


def addressed(
    parcel: Mapping[str, Any], folder: str, runs: str, cluster: FoundCluster, part: Part | None = None
) -> dict[str, Any]:
    """Return a parcel for one host: muster's folder and runs there, the cluster as it sees it, and its part."""
    table = cluster.cluster.model_dump(exclude_unset=True, exclude_none=True, mode="json")
    return {
        **parcel,
        "folder": folder,
        "runs": runs,
        "cluster": {"name": cluster.name, "table": table, "source": cluster.source},
        "part": asdict(part) if part else None,
    }


def unpacked(parcel: Mapping[str, Any], projects: Path | None = None) -> Request:
    """Return the request that a parcel holds, and go to where it is carried out.

    `projects` is where the projects' files are, if not in muster's own folder.
    """
    folder, runs = Path(parcel["folder"]), Path(parcel["runs"])
    sent, target = None, parcel["target"]
    folder.mkdir(OWN_FOLDER, parents=True, exist_ok=True)
    os.chdir(folder)
    if (project := parcel["project"]) is not None:
        sent = _received(projects or folder / PROJECTS, project)
        inside = sent.root / project["folder"]
        inside.mkdir(parents=True, exist_ok=True)
        os.chdir(inside)
        target = str(sent.root / target["inside"]) if isinstance(target, dict) else target
    cluster = parcel["cluster"]
    options = SubmitOptions(
        cluster=FoundCluster(cluster["name"], NamedCluster.model_validate(cluster["table"]), cluster["source"]),
        directory=runs,
        name=parcel["name"],
        resume=parcel["resume"],
        max_jobs=parcel["max_jobs"],
        seeds=parcel["seeds"],
        snapshot=sent is not None,
        sent=sent,
        part=Part(**parcel["part"]) if parcel["part"] else None,
    )
    return Request(
        options,
        target=target,
        command=parcel["command"],
        settings=parcel["settings"],
        doctor=parcel["doctor"],
        again=JobFolder(runs / parcel["name"]) if parcel["again"] else None,
    )


def _received(projects: Path, table: Mapping[str, Any]) -> Project:
    """Return the project as it arrived; what was sent before and is no part of it any more is removed."""
    root, record = projects / table["id"], projects / f"{table['id']}.json"
    files = table["files"]
    with suppress(OSError, ValueError):
        for name in set(json.loads(record.read_text(encoding="utf-8"))) - set(files):
            path = root / name
            if path.resolve().is_relative_to(root.resolve()):
                path.unlink(missing_ok=True)
    write_json(record, files)
    return Project(root, tuple(map(Path, files)), table["commit"], table["changes"])


def _target(request: Request, loaded: LoadedExperiment | None, project: Project | None) -> Any:
    """Return the target as the host is to read it: a path inside the project, or a name as it is."""
    target = request.target
    if target is None or project is None:
        return target
    if target.endswith(".toml"):
        return {"inside": _inside(Path(target), project)}
    if loaded is not None:
        file, colon, attribute = loaded.experiment.env.id.rpartition(":")
        if colon and file.endswith(".py"):
            return {"inside": f"{_inside(Path(file), project)}:{attribute}"}
    return target


def _inside(path: Path, project: Project) -> str | None:
    path = path.resolve()
    return str(path.relative_to(project.root)) if path.is_relative_to(project.root) else None
