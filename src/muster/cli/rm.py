"""`muster rm`: remove runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import AsJson, RunsDir
from muster.cli.screen import print_json, show_notice
from muster.errors import InputError
from muster.experiment.quantities import counted
from muster.files.regular import is_folder
from muster.runs.folder import RunFolder
from muster.runs.folder import runs_dir as folder_of_runs
from muster.runs.reading import printable


def rm(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="Runs, folders of several seeds, or sweeps.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    runs_dir: RunsDir = None,
    as_json: AsJson = False,
) -> None:
    """Remove runs with all their checkpoints; asks first, and refuses a run that lives."""
    from muster.runs.removing import remove_folder, size_of

    directory = folder_of_runs(runs_dir)
    paths = list(dict.fromkeys(_removable(run, directory) for run in runs))
    for path in paths:
        with _kept_ended(path, directory):
            pass
    sizes = {path: size_of(path) for path in paths}
    if not yes:
        for path, size in sizes.items():
            show_notice(f"{path}: {size / 1e6:,.1f} MB")
        typer.confirm(f"remove {counted(len(paths), 'folder')}?", abort=True, err=True)
    for path, size in sizes.items():
        with _kept_ended(path, directory):
            remove_folder(path)
        if not as_json:
            print(printable(f"removed {path} ({size / 1e6:,.1f} MB)"))
    if as_json:
        print_json({"removed": [str(path) for path in paths], "bytes": sum(sizes.values())})


def _removable(run: str, directory: Path) -> Path:
    """Return the folder that a name means, if it is that of a run, a sweep or several seeds."""
    from muster.reports.groups import find_folder
    from muster.runs.removing import is_surely_run, lives_elsewhere

    if Path(run).parts == (run,) and run != ".." and is_folder(directory / run):
        run = str(directory / run)
    path, folders = find_folder(run, directory)
    if path.is_symlink():
        raise InputError(f"{path}: is a link, expected the folder of a run\n    remove the link with rm")
    for folder in folders:
        if lives_elsewhere(folder.path):
            raise InputError(
                f"{folder.path}: stands for a run on other hosts, so it is not removed\n"
                "    muster clusters clean removes what is there; then remove this folder with rm -r"
            )
    if not is_surely_run(RunFolder(path)) and not _is_group(path, folders):
        raise InputError(f"{path}: is no run, sweep or folder of several seeds, so it is not removed")
    return path if path.name not in ("", "..") else path.resolve()


def _is_group(path: Path, folders: Sequence[RunFolder]) -> bool:
    """Whether a folder is that of several seeds or of a sweep: it has their runs, or the record of the trials."""
    from muster.runs.removing import is_surely_run
    from muster.sweeps.folder import SweepFolder
    from muster.sweeps.record import SweepRecord

    are_members = all(re.fullmatch(r"(seed|trial)-[0-9]+", folder.name) for folder in folders)
    if are_members and any(map(is_surely_run, folders)):
        return True
    try:
        SweepRecord.load(SweepFolder(path))
    except InputError:
        return False
    return True


@contextmanager
def _kept_ended(path: Path, directory: Path) -> Iterator[None]:
    """Refuse a folder whose runs may live or are in a queue; keep others from being resumed for so long."""
    from muster.jobs.folder import JobFolder
    from muster.reports.groups import find_folder
    from muster.runs.removing import kept_ended

    if JobFolder(path).exists():
        _require_jobs_ended(path)
    _, folders = find_folder(str(path), directory)
    with kept_ended([RunFolder(path), *folders]):
        yield


def _require_jobs_ended(path: Path) -> None:
    """Refuse a run with jobs in a queue, which would start it again, or of which that is not known."""
    from muster.jobs.folder import JobFolder, members
    from muster.jobs.states import ENDED_STATES, read_states

    for state in read_states(members(JobFolder(path))):
        if state.state not in ENDED_STATES:
            raise InputError(
                f"{state.run}: its job is {state.state}, so it is not removed\n    muster cancel {path.name}"
            )
