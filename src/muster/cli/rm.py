"""`muster rm`: remove runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.options import AsJson, RunsDir
from muster.cli.screen import print_json, show_notice
from muster.errors import InputError
from muster.experiment.quantities import counted
from muster.runs.folder import runs_dir as folder_of_runs
from muster.runs.reading import printable

if TYPE_CHECKING:
    from muster.runs.folder import RunFolder


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
    sizes = {path: size_of(path) for path in paths}
    if not yes:
        for path, size in sizes.items():
            show_notice(printable(f"{path}: {size / 1e6:,.1f} MB"))
        typer.confirm(f"remove {counted(len(paths), 'folder')}?", abort=True, err=True)
    for path in paths:
        remove_folder(path)
    if as_json:
        print_json({"removed": [str(path) for path in paths], "bytes": sum(sizes.values())})
        return
    for path, size in sizes.items():
        print(printable(f"removed {path} ({size / 1e6:,.1f} MB)"))


def _removable(run: str, directory: Path) -> Path:
    """Return the folder that a name means, if all its runs have ended."""
    from muster.jobs.folder import JobFolder
    from muster.reports.groups import find_folder, is_sweep
    from muster.runs.folder import RunFolder
    from muster.runs.removing import lives_elsewhere, require_ended

    path, folders = find_folder(run, directory)
    if path.is_symlink():
        raise InputError(f"{path}: is a link, expected the folder of a run\n    remove the link with rm")
    if not RunFolder(path).exists() and not is_sweep(path) and not all(map(_is_seed, folders)):
        raise InputError(f"{path}: is no run, sweep or folder of several seeds, so it is not removed")
    for folder in folders:
        if lives_elsewhere(folder.path):
            raise InputError(
                f"{folder.path}: stands for a run on other hosts, so it is not removed\n"
                "    muster clusters clean removes what is there; then remove this folder with rm -r"
            )
        require_ended(folder, "it is not removed")
    if JobFolder(path).exists():
        _require_jobs_ended(path, folders)
    return path


def _is_seed(folder: RunFolder) -> bool:
    return re.fullmatch(r"seed-[0-9]+", folder.name) is not None


def _require_jobs_ended(path: Path, folders: list[RunFolder]) -> None:
    """Refuse a run with jobs in a queue, which would start it again, or of which that is not known."""
    from muster.jobs.folder import JobFolder, members
    from muster.jobs.states import ENDED_STATES, read_states

    for state in read_states(members(JobFolder(path))):
        if state.state not in ENDED_STATES:
            raise InputError(
                f"{state.run}: its job is {state.state}, so it is not removed\n    muster cancel {path.name}"
            )
