"""What a resumed run continues from: a whole checkpoint, its experiment, and changes that keep it the same run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from muster.engines.builtin.plan import RAISED_FOR_WORKERS
from muster.errors import ExperimentError, InputError, Problem
from muster.experiment import LoadedExperiment
from muster.experiment.loading import load_saved
from muster.experiment.source import DEFAULT
from muster.experiment.tables import value_at
from muster.files.carried import is_carried
from muster.files.regular import is_there, read_bytes
from muster.runs.checkpoints import EXPERIMENT, Checkpoints
from muster.runs.folder import RunFolder
from muster.runs.repair import repair, set_aside

CHANGEABLE = (
    "stop.",
    "evaluation.",
    "checkpoint.",
    "resources.workers",
    "resources.overlap",
    "resources.gpus",
    "resources.learner_threads",
    "env.max_failures",
    "env.paths",
)

Notice = Callable[[str], None]


@dataclass(frozen=True)
class Resumption:
    """What to continue from; without a checkpoint the run starts again."""

    loaded: LoadedExperiment
    checkpoint: Path | None


def open_saved(folder: RunFolder, given: LoadedExperiment, notice: Notice) -> Resumption:
    """Find what a run can continue from, whatever else in its folder is damaged.

    Raises:
        CheckpointError: if it has checkpoints, and all are damaged.
        ExperimentError: naming each change that would make it another run.
    """
    repair(folder, notice)
    checkpoint = Checkpoints(folder.checkpoints).latest_whole(notice)
    saved = _saved_experiment(folder, checkpoint, notice)
    if saved is None:
        notice(f"{folder.path}: its experiment cannot be read; the one that is given is taken for it")
        return Resumption(given, checkpoint)
    return Resumption(_merge(folder, saved, given), checkpoint)


def _saved_experiment(folder: RunFolder, checkpoint: Path | None, notice: Notice) -> LoadedExperiment | None:
    """Return the experiment of a checkpoint, with the edits of the run's file that keep it the same run.

    A key that the file lacks has the value it was trained with.
    """
    edited = _read(folder.experiment, notice)
    if checkpoint is None or not is_there(checkpoint / EXPERIMENT):
        return edited
    trained = load_saved(checkpoint / EXPERIMENT)
    if edited is None:
        return trained
    merged, problems = trained, []
    before, now = trained.experiment.as_table(), edited.experiment.as_table()
    for key, source in edited.sources.items():
        value = value_at(now, key)
        if source == DEFAULT or key == "name" or value in (value_at(before, key), {}):
            continue
        if key.startswith(CHANGEABLE):
            merged = merged.replace(key, value, source)
        else:
            problem = f"is {value!r}, but the run was trained with {value_at(before, key)!r}"
            hint = "change it back, or start a new run with --from"
            problems.append(Problem(edited.place(key), problem, hint))
    if problems:
        raise ExperimentError(f"--resume {folder.name}", problems)
    return merged


def _read(path: Path, notice: Notice) -> LoadedExperiment | None:
    """Read the run's own file; what is no experiment is renamed."""
    if not is_there(path):
        return None
    try:
        return load_saved(path)
    except InputError as error:
        set_aside(path, f"is damaged: {error}", notice)
        return None


def _merge(folder: RunFolder, saved: LoadedExperiment, given: LoadedExperiment) -> LoadedExperiment:
    """Return the saved experiment with the changes that were asked for."""
    sources = _read_sources(folder)
    merged = LoadedExperiment(saved.experiment, sources, given.places, given.subject)
    table, saved_table = given.experiment.as_table(), saved.experiment.as_table()
    asked = [key for key, source in given.sources.items() if source != DEFAULT]
    problems = []
    for key in asked:
        value, before = value_at(table, key), value_at(saved_table, key)
        if key == "name" or value == before or sources.get(key) == RAISED_FOR_WORKERS:
            continue
        if key.startswith(CHANGEABLE) or (key == "env.id" and _is_same_carried(value, before)):
            merged = merged.replace(key, value, given.sources[key])
        else:
            problems.append(
                Problem(
                    f"{key} ({given.sources[key]})",
                    f"is {value!r}, but the run to resume has {before!r}",
                    "leave it out, or start a new run with --from",
                )
            )
    if problems:
        raise ExperimentError(f"--resume {folder.name}", problems)
    return merged


def _is_same_carried(now: str, before: str) -> bool:
    """Whether both are a notebook's class or function of one name: its code may change, as a file's may."""
    same_name = now.rpartition(":")[2] == before.rpartition(":")[2]
    return same_name and is_carried(now) and is_carried(before)


def _read_sources(folder: RunFolder) -> dict[str, str]:
    try:
        sources = json.loads(read_bytes(folder.sources))
    except (OSError, ValueError, RecursionError):
        return {}
    return {str(key): str(source) for key, source in sources.items()} if isinstance(sources, dict) else {}
