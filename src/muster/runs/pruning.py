"""What is not needed any more among runs: older checkpoints, runs without an iteration, ended launches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from muster.files.regular import is_folder, is_regular, is_there
from muster.runs.checkpoints import Checkpoints
from muster.runs.finding import list_runs
from muster.runs.folder import RunFolder
from muster.runs.metrics import read_metrics
from muster.runs.removing import lives_elsewhere, size_of
from muster.runs.status import heartbeat_is_fresh, read_status

LAUNCHES = "launches"
_ENDED_LAUNCH = "bring-up.jsonl"
"""Written when a launch has ended."""
_JOB = "job"


@dataclass(frozen=True)
class Waste:
    """A folder that can go, and why."""

    path: Path
    why: str
    bytes: int


def find_waste(directory: Path, older_than: float) -> list[Waste]:
    """Return what can go of runs that have ended, if it was last changed so many seconds ago.

    The best and the newest checkpoint of every run stay. Nothing of a run that may live is named.
    """
    latest = time.time() - older_than
    runs = [folder for folder in list_runs(directory) if folder.exists() and not folder.path.is_symlink()]
    idle = [folder for folder in runs if _is_idle(folder, latest)]
    found = [waste for folder in idle for waste in _of_run(folder)]
    in_use = {_launch(folder) for folder in runs if folder not in idle}
    for path in _folders(directory / LAUNCHES):
        if path.name not in in_use and _is_ended_launch(path, latest):
            found.append(Waste(path, "ended launch", size_of(path)))
    return found


def _of_run(folder: RunFolder) -> Iterator[Waste]:
    checkpoints = Checkpoints(folder.checkpoints)
    saved = checkpoints.saved()
    # What was submitted may be in a queue still.
    if not saved and not len(read_metrics(folder.metrics)):
        if not is_there(folder.path / _JOB):
            yield Waste(folder.path, "run without an iteration", size_of(folder.path))
        return
    kept = {checkpoints.best(), checkpoints.latest()}
    for path in saved:
        if path not in kept and not path.is_symlink():
            yield Waste(path, "older checkpoint", size_of(path))


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
        return sorted(one for one in path.iterdir() if is_folder(one) and not one.is_symlink())
    except OSError:
        return []
