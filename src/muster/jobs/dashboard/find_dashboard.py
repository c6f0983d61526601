"""Finding Ray's dashboard of a run on this file system, or why there is none."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from muster.clusters.launching.dashboard_record import FOLDER, DashboardRecord, read_dashboard
from muster.clusters.named import find_cluster
from muster.errors import InputError
from muster.files.regular import is_folder
from muster.jobs.folder import JobFolder, find_job, members
from muster.jobs.states import read_states
from muster.jobs.submission_plan import CLUSTER
from muster.runs.finding import find_run
from muster.runs.folder import RunFolder
from muster.runs.groups import find_group
from muster.runs.status import heartbeat_is_fresh, read_status

LAUNCHES = "launches"
_HOW = "submit with --dashboard, or launch with `muster launch --dashboard`"


@dataclass(frozen=True)
class FoundDashboard:
    """A dashboard and the launch that it belongs to."""

    record: DashboardRecord
    launch: Path

    @property
    def is_here(self) -> bool:
        """Whether it listens on this machine."""
        return self.record.hostname == socket.gethostname()

    def is_up(self) -> bool:
        """Whether its launch has not ended."""
        return read_dashboard(self.launch) == self.record


def find_folder(run: str, directory: Path) -> Path:
    """Find the folder of a run that was submitted or trained on this file system, or a folder of several runs.

    Raises:
        InputError: naming the runs there are.
    """
    if any(JobFolder(path).exists() for path in (Path(run), directory / run)):
        return find_job(run, directory).path
    if (group := find_group(run, directory)) is not None:
        return group.path.resolve()
    if run and Path(run).resolve() == directory.resolve():
        return directory.resolve()
    return find_run(run, directory).path.resolve()


def find_dashboard(run: Path) -> FoundDashboard | None:
    """Return Ray's dashboard of a run; None if there is none now.

    Raises:
        OwnershipError: if another user could have written where it is.
    """
    for launch in _launches(run):
        if (record := read_dashboard(launch)) is not None:
            return FoundDashboard(record, launch)
    return None


def why_none(run: Path) -> str:
    """Say why a run has no dashboard now, and what to do about it."""
    job = JobFolder(run)
    if not job.exists():
        status = read_status(RunFolder(run).status)
        if status is not None and not heartbeat_is_fresh(status):
            return f"Ray's dashboard is not up: the run is {status.shown_state}"
        return f"Ray's dashboard was not started with this run: {_HOW}"
    if job.order().kind == "seeds":
        names = ", ".join(f"{run.name}/{member.path.name}" for member in members(job))
        return f"each seed has a dashboard of its own; which one? {names}"
    if not _is_asked_for(job):
        return f"Ray's dashboard was not started with this run: {_HOW}"
    return f"Ray's dashboard is not up: the run is {read_states([job])[0].state}"


def is_by_scheduler(run: Path) -> bool:
    """Whether a run was submitted to a scheduler's hosts, so that this machine may be a login node."""
    job = JobFolder(run)
    return job.exists() and job.order().scheduler not in ("local", "ssh")


def _launches(run: Path) -> Iterator[Path]:
    """Return the launches of a run, the newest first: those of its jobs, and the one it was started in by hand."""
    own = [path for path in (run / LAUNCHES).glob("*") if is_folder(path / FOLDER)]
    yield from sorted(own, key=lambda path: (path / FOLDER).stat().st_mtime, reverse=True)
    status = read_status(RunFolder(run).status)
    if status is not None and status.launch and heartbeat_is_fresh(status) and "/" not in status.launch:
        yield from (folder / LAUNCHES / status.launch for folder in (run.parent, run.parent.parent))


def _is_asked_for(job: JobFolder) -> bool:
    try:
        return find_cluster(str(job.folder / CLUSTER)).cluster.dashboard
    except InputError:
        return False
