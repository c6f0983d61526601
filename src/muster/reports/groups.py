"""What a name or a folder stands for: one run, the runs of several seeds, or the trials of a sweep."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from muster.errors import InputError
from muster.files.regular import is_folder, is_regular
from muster.reports.history import RunHistory, read_history
from muster.runs.finding import find_run, list_runs
from muster.runs.folder import RunFolder
from muster.sweeps.folder import SweepFolder
from muster.sweeps.record import SweepRecord

RUN, SEEDS, SWEEP = "run", "seeds", "sweep"


@dataclass
class Group:
    """Runs that belong together; a run by itself is a group of one."""

    name: str
    path: Path
    kind: str
    runs: list[RunHistory] = field(default_factory=list)
    sweep: SweepRecord | None = None
    problems: list[str] = field(default_factory=list)

    def scores(self, *, by_evaluations: bool) -> NDArray[np.float64]:
        """Return the final return of each run that has one."""
        found = [final_return(run, by_evaluations=by_evaluations) for run in self.runs]
        return np.array([score for score in found if score is not None], np.float64)


def final_return(run: RunHistory, *, by_evaluations: bool) -> float | None:
    """Return the last evaluation's mean return, or the mean return of the last training episodes."""
    if by_evaluations:
        returns = [line.get("return_mean") for line in run.evaluations]
        found = np.array([value for value in returns if isinstance(value, int | float)], np.float64)
    else:
        found = run.column("return/mean")
    found = found[np.isfinite(found)]
    return float(found[-1]) if len(found) else None


def all_evaluated(groups: Iterable[Group]) -> bool:
    """Whether all runs have an evaluation, so that their final returns can be told by these."""
    runs = [run for group in groups for run in group.runs]
    return bool(runs) and all(final_return(run, by_evaluations=True) is not None for run in runs)


def measure(by_evaluations: bool) -> str:
    """Say what a final return is."""
    what = "the last evaluation" if by_evaluations else "the last 100 training episodes"
    return f"Final returns are the mean returns of {what}."


def find_group(target: str, directory: Path) -> Group:
    """Find what is meant by a name in the runs folder, or by a path.

    Raises:
        InputError: naming the runs there are.
    """
    path, folders = find_folder(target, directory)
    runs = [read_history(folder) for folder in folders]
    if is_sweep(path):
        return _sweep(path, runs)
    return Group(_name(path), path, RUN if RunFolder(path).exists() else SEEDS, runs)


def find_folder(target: str, directory: Path) -> tuple[Path, list[RunFolder]]:
    """Find a folder as `find_group` does, without reading it; return it and the runs in it.

    Raises:
        InputError: naming the runs there are.
    """
    for path in (Path(target), directory / target) if target else ():
        if RunFolder(path).exists():
            return path, [RunFolder(path)]
        if is_folder(path) and path.resolve() != directory.resolve():
            folders = _folders(path)
            if folders or is_sweep(path):
                return path, folders
    return (folder := find_run(target, directory)).path, [folder]


def is_sweep(path: Path) -> bool:
    """Whether a folder is a sweep's, be it damaged."""
    folder = SweepFolder(path)
    return is_regular(folder.experiment) or is_regular(folder.record)


def _name(path: Path) -> str:
    return path.name or path.resolve().name


def _sweep(path: Path, runs: list[RunHistory]) -> Group:
    group = Group(_name(path), path, SWEEP, runs)
    try:
        group.sweep = SweepRecord.load(SweepFolder(path))
    except InputError as error:
        group.problems.append(str(error).partition("\n")[0])
    return group


def _folders(path: Path) -> list[RunFolder]:
    found = [folder for folder in list_runs(path) if folder.path.parent == path and folder.exists()]
    return sorted(found, key=lambda folder: _natural(folder.name))


def _natural(name: str) -> tuple[str, int]:
    stem, _, digits = name.rpartition("-")
    return (stem, int(digits)) if digits.isascii() and digits.isdecimal() and len(digits) < 18 else (name, 0)
