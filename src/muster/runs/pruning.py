"""What is not needed any more among runs: older checkpoints, runs without an iteration, ended launches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from muster.errors import InputError
from muster.files.regular import is_folder, is_regular, is_there, read_bytes
from muster.runs.checkpoints import MANIFEST, Checkpoints
from muster.runs.finding import list_runs
from muster.runs.folder import RunFolder
from muster.runs.metrics import parse_metrics
from muster.runs.removing import is_surely_run, kept_ended, lives_elsewhere, remove_folder, size_of
from muster.runs.status import heartbeat_is_fresh, read_status

LAUNCHES = "launches"
_ENDED_LAUNCH = "bring-up.jsonl"
"""Written when a launch has ended."""
_JOB = "job"


@dataclass(frozen=True)
class Waste:
    """A folder that can go, why, and the run that it belongs to, if any."""

    path: Path
    why: str
    bytes: int
    run: RunFolder | None


def find_waste(directory: Path, latest: float) -> list[Waste]:
    """Return what can go of runs that have ended, if nothing was written to them since a time.

    The best and the newest checkpoint of every run stay. Nothing of a run that may live is named, and nothing that
    a link leads to.
    """
    runs = [folder for folder in list_runs(directory) if is_surely_run(folder)]
    idle = [folder for folder in runs if _is_idle(folder, latest)]
    found = [waste for folder in idle for waste in _of_run(folder)]
    in_use = {_launch(folder) for folder in runs if folder not in idle}
    for path in _folders(directory / LAUNCHES):
        if path.name not in in_use and _is_ended_launch(path, latest):
            found.append(Waste(path, "ended launch", size_of(path), None))
    return [waste for waste in found if not _is_behind_link(waste.path, directory)]


def remove_waste(waste: Waste, latest: float) -> None:
    """Remove what `find_waste` found, unless its run was continued in the meantime.

    Raises:
        MusterError: if it is kept, or cannot be removed.
    """
    with kept_ended([] if waste.run is None else [waste.run]):
        if waste.run is not None and not _is_idle(waste.run, latest):
            raise InputError(f"{waste.path}: the run was changed in the meantime, so it is not removed")
        remove_folder(waste.path)


def _of_run(folder: RunFolder) -> Iterator[Waste]:
    checkpoints = Checkpoints(folder.checkpoints)
    saved = checkpoints.saved()
    # What was submitted may be in a queue still.
    if not saved and not _may_have_rows(folder.metrics):
        if not is_there(folder.path / _JOB):
            yield Waste(folder.path, "run without an iteration", size_of(folder.path), folder)
        return
    kept = {checkpoints.best(), checkpoints.latest()}
    for path in saved:
        if path not in kept and is_regular(path / MANIFEST):
            yield Waste(path, "older checkpoint", size_of(path), folder)


def _may_have_rows(metrics: Path) -> bool:
    try:
        return len(parse_metrics(read_bytes(metrics))) > 0
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True


def _is_behind_link(path: Path, directory: Path) -> bool:
    """Whether a path below a folder is a link, or leads through one."""
    return path.resolve() != directory.resolve() / path.relative_to(directory)


def _is_idle(folder: RunFolder, latest: float) -> bool:
    """Whether a run has ended, and nothing was written since."""
    status = read_status(folder.status)
    if lives_elsewhere(folder.path) or (status is not None and heartbeat_is_fresh(status)):
        return False
    return max(map(_changed, (folder.path, folder.status, folder.metrics, folder.lock))) < latest


def _is_ended_launch(path: Path, latest: float) -> bool:
    record = path / _ENDED_LAUNCH
    return is_regular(record) and _changed(record) < latest


def _launch(folder: RunFolder) -> str | None:
    status = read_status(folder.status)
    return status.launch if status is not None else None


def _changed(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0


def _folders(path: Path) -> list[Path]:
    try:
        return sorted(one for one in path.iterdir() if is_folder(one))
    except OSError:
        return []
