"""Submitting a run to a Ray that exists, through its job server, with muster and the project sent along."""

from __future__ import annotations

import json
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from muster.clusters.named import RAY, FoundCluster, NamedCluster
from muster.errors import InputError, JobError
from muster.experiment import LoadedExperiment
from muster.jobs.places import ray_agent
from muster.jobs.places.model import Notice
from muster.jobs.places.parcel import RUNS, addressed, packed
from muster.jobs.places.preparing import Wanted
from muster.jobs.places.ray_jobs import PENDING, RUNNING, RayJobs, marked, new_id, write_archive
from muster.jobs.places.record import Elsewhere, HostRecord, read_record, write_record
from muster.jobs.places.requirements import MINOR, Requirements, public_version
from muster.jobs.places.shipment import Shipment, default_folder, pack_shipment
from muster.jobs.places.submitting import Sent
from muster.jobs.request import Request
from muster.jobs.submission import require_trainable, run_base
from muster.jobs.submitted_folder import choose_folder
from muster.runs.folder import ELSEWHERE

PARCEL = "parcel.json"
PROJECT = "project"
START_SECONDS = 120.0
"""How long a submission waits for its job to begin; it begins later where much has to be installed."""
QUIET_SECONDS = 5.0
POLL_SECONDS = 0.3
_ENTRYPOINT = f"exec python -P -m muster receive --parcel {PARCEL} --become"
_WITH_EFFECT = {
    *("scheduler", "address", "folder", "requirements", "setup", "unset", "login_shell", "wall_time", "grace"),
    *("requires", "profile"),
}


def plan_ray_shipment(request: Request, notice: Notice) -> Shipment:
    """Find out what is to be sent to a Ray; nothing is written or sent.

    Raises:
        InputError: if what is asked for cannot be sent.
    """
    loaded = request.load()
    _require_sendable(request, loaded)
    shipment = pack_shipment(request, loaded, [_address(request.options.cluster)], notice)
    return replace(shipment, wanted=replace(shipment.wanted, project_id=PROJECT))


def submit_to_ray(request: Request, notice: Notice) -> Sent:
    """Send a run to a Ray and start it there.

    Raises:
        InputError: if what is asked for cannot be sent, or does not fit what that Ray has.
        JobError: if the Ray cannot be reached, or the run does not begin.
    """
    found = request.options.cluster
    if request.again is not None:
        path = request.again.path.resolve()
        record = read_record(path)
        needs = Requirements(record.requirements)
        wanted = Wanted(found.cluster, default_folder(found), needs, None, PROJECT, notice)
        return _submit(request, path, Shipment([record.host], None, wanted), record)
    shipment = plan_ray_shipment(request, notice)
    path = choose_folder(*run_base(request.command, shipment.loaded, request.options))
    earlier = read_record(path) if (path / ELSEWHERE).exists() else None
    try:
        return _submit(request, path, shipment, earlier)
    except BaseException:
        with suppress(OSError):
            path.rmdir()
            path.parent.rmdir()
        raise


def _submit(request: Request, path: Path, shipment: Shipment, earlier: Elsewhere | None) -> Sent:
    """Look what the Ray has, send the run, and wait until it begins; if it does not, nothing is left of it."""
    [address], wanted = shipment.hosts, shipment.wanted
    if earlier is not None and (earlier.kind != RAY or earlier.host != address):
        raise InputError(f"--resume: {path.name} is at {earlier.host}, and continues only there")
    order = {"do": "look", "folder": wanted.folder, "requirements": list(wanted.requirements.lines)}
    facts = RayJobs(address).ask(order)
    _require_fitting(address, facts)
    jobs, record = RayJobs(address, facts["missing"]), _record(request, path, shipment, facts)
    write_record(path, record)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            archive = Path(scratch) / "run.tar.gz"
            _write_run(archive, request, shipment, record)
            jobs.start(record.job_id, _ENTRYPOINT, archive)
        _wait_for_start(jobs, record, wanted.notice)
    except BaseException:
        with suppress(JobError):
            jobs.stop(record.job_id)
        if earlier is not None:
            write_record(path, earlier)
        else:
            (path / ELSEWHERE).unlink(missing_ok=True)
        raise
    return Sent(path, record, [record.job_id])


def _write_run(archive: Path, request: Request, shipment: Shipment, record: Elsewhere) -> None:
    """Write all that the job needs: the request, and the project's files beside it."""
    project, folder = shipment.wanted.project, Path(record.first.folder)
    parcel = packed(request, folder.name, shipment.loaded, project, PROJECT)
    there = addressed(parcel, str(folder.parents[1]), str(folder.parent), _there(request.options.cluster))
    write_archive(
        archive, {PARCEL: json.dumps(there)}, (PROJECT, project.root, project.files) if project else None
    )


def _wait_for_start(jobs: RayJobs, record: Elsewhere, notice: Notice) -> None:
    """Wait until the run has begun, or for a while as long as Ray sets up its environment.

    Raises:
        JobError: if the run does not begin.
    """
    began, is_told = time.monotonic(), False
    while True:
        info = jobs.info(record.job_id)
        status = "" if info is None else str(info.status.value)
        if status != PENDING and marked(jobs.log(record.job_id), ray_agent.ANSWER) is not None:
            return
        if status not in (PENDING, RUNNING):
            raise JobError(f"{jobs.address}: the run did not begin: {jobs.why_ended(record.job_id)}")
        waited = time.monotonic() - began
        if status == PENDING and waited > QUIET_SECONDS and not is_told:
            is_told = True
            packages = f": {', '.join(record.packages)}" if record.packages else ""
            notice(f"Ray is setting up the environment of the run{packages}")
        if waited > START_SECONDS:
            notice("it has not begun yet; `muster status` shows when it does")
            return
        time.sleep(POLL_SECONDS)


def _record(request: Request, path: Path, shipment: Shipment, facts: dict[str, Any]) -> Elsewhere:
    found = request.options.cluster
    return Elsewhere(
        kind=RAY,
        cluster=found.name,
        scheduler=RAY,
        hosts={
            shipment.hosts[0]: HostRecord(f"{facts['folder']}/{RUNS}/{path.name}", "python", facts["hostname"])
        },
        table=found.cluster.model_dump(exclude_unset=True, exclude_none=True, mode="json"),
        job_id=new_id(path.name),
        requirements=shipment.wanted.requirements.lines,
        packages=tuple(facts["missing"]),
    )


def _there(found: FoundCluster) -> FoundCluster:
    """Return the cluster as the head sees it: nobody is to be reached from there."""
    away = {"address", "folder", "requirements", "requires", "profile"}
    table = found.cluster.model_dump(exclude_unset=True, exclude=away)
    return replace(found, cluster=NamedCluster.model_validate(table))


def _address(found: FoundCluster) -> str:
    """Return the address of a Ray; refuse what would have no effect there."""
    cluster = found.cluster
    if cluster.address is None:
        raise InputError(
            f"--on {found.name}: needs address ({found.source})\n"
            f'    write address = "http://127.0.0.1:8265" into [clusters.{found.name}], '
            "or give --on ray:http://127.0.0.1:8265"
        )
    useless = [key for key in cluster.model_fields_set - _WITH_EFFECT if getattr(cluster, key)]
    if useless:
        raise InputError(
            f"--on {found.name}: {', '.join(sorted(useless))}: without effect on a Ray that exists\n"
            "    leave them out; --set resources.workers=N says how many of its CPUs training uses"
        )
    return cluster.address


def _require_sendable(request: Request, loaded: LoadedExperiment | None) -> None:
    options = request.options
    if not options.snapshot:
        raise InputError(f"--no-snapshot: the project's files must be sent to {options.cluster.name}")
    if request.doctor or options.seeds:
        flag = "--doctor" if request.doctor else f"--seeds {options.seeds}"
        raise InputError(f"{flag}: not on a Ray that exists\n    submit one run for each seed")
    if loaded is not None and loaded.experiment.sweep is not None:
        raise InputError(
            f"{request.target}: has a [sweep], whose trials need a folder that all nodes see; a Ray has none\n"
            "    submit it to a scheduler's cluster, or train it there without the [sweep]"
        )
    if loaded is not None and request.target is not None:
        require_trainable(loaded, request.target, options)


def _require_fitting(address: str, facts: dict[str, Any]) -> None:
    """Refuse a Ray whose processes could not understand each other and this muster."""
    for what, there, here in (
        ("Python", facts["python"], MINOR),
        ("Ray", facts["ray"], public_version("ray")),
    ):
        if there != here:
            raise InputError(
                f"{address}: runs {what} {there}, expected {here} as here\n"
                f"    start that Ray with {what} {here}, or use an environment here with {what} {there}"
            )
