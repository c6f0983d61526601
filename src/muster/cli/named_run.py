"""A run that is to be resumed, by its name or folder instead of by its experiment file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from muster.errors import InputError
from muster.experiment.loading import LoadedExperiment, Override, load_run
from muster.experiment.source import SUFFIX
from muster.runs.checkpoints import EXPERIMENT, Checkpoints
from muster.runs.finding import find_run
from muster.runs.folder import RunFolder
from muster.runs.folder import runs_dir as folder_of_runs
from muster.runs.groups import SWEEP_FILE, Group, find_group
from muster.simulators.lookup import is_registered


def names_run(target: str, runs_dir: str | None) -> bool:
    """Whether what is to be trained is the name or folder of a run, or of several."""
    directory = folder_of_runs(runs_dir)
    is_run = any(RunFolder(path).exists() for path in (Path(target), directory / target))
    return is_run or find_group(target, directory) is not None


def is_only_run(target: str, runs_dir: str | None) -> bool:
    """Whether what is to be trained is the name or folder of a run, and no simulator."""
    is_name = not target.endswith((SUFFIX, ".py")) and ":" not in target
    return is_name and names_run(target, runs_dir) and not is_registered(target)


def load_named_run(run: str, runs_dir: str | None, overrides: Sequence[Override]) -> tuple[LoadedExperiment, Path]:
    """Return the experiment of a run with the changes that are asked for, and the folder that the run is in.

    Raises:
        InputError: if there is no such run, or it is several.
    """
    directory = folder_of_runs(runs_dir)
    if (group := find_group(run, directory)) is not None:
        raise _several(group)
    folder = find_run(run, directory)
    saved = folder.experiment
    latest = Checkpoints(folder.checkpoints).latest()
    try:
        loaded = load_run(saved, folder.path.resolve().name, overrides)
    except InputError:
        if latest is None or not (latest / EXPERIMENT).is_file():
            raise
        # The file that is damaged is dealt with, and reported, when the run is opened.
        loaded = load_run(latest / EXPERIMENT, folder.path.resolve().name, overrides)
    return loaded, folder.path.parent


def _several(group: Group) -> InputError:
    first = group.members[0].path if group.members else group.path / "NAME"
    if group.kind == "sweep":
        again = f"muster sweep {group.path / SWEEP_FILE} --runs-dir {group.path.parent} --name {group.path.name}"
        return InputError(f"{group.path}: is a sweep, not a run\n    {again} --resume\n    continues its trials")
    return InputError(
        f"{group.path}: holds {len(group.members)} runs, one for each seed\n"
        f"    the command that started them, with --name {group.path.name} --resume, continues all; "
        f"one alone: muster resume {first}"
    )
