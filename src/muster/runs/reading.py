"""All that a run folder says of itself, and what of it cannot be read; content never raises an error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.errors import InputError
from muster.files.regular import is_folder, is_there, odd_kind, read_bytes
from muster.runs.checkpoints import EXPERIMENT, Checkpoints
from muster.runs.files import last_json_line
from muster.runs.folder import CODE, RunFolder
from muster.runs.metrics import MetricsTable, parse_metrics, read_sampled_metrics
from muster.runs.status import Status, parse_status

if TYPE_CHECKING:
    from muster.experiment.schema import Experiment


@dataclass
class RunRecord:
    """What a run folder says; what is missing or damaged is empty, and `problems` says what is wrong."""

    folder: RunFolder
    status: Status = field(default_factory=lambda: Status("unknown"))
    experiment: Experiment | None = None
    rows: MetricsTable = field(default_factory=MetricsTable)
    last_event: dict[str, Any] | None = None
    checkpoints: list[str] = field(default_factory=list)
    best: str | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def last_row(self) -> dict[str, str]:
        """The newest row of the metrics; empty if there is none."""
        return self.rows.last()


def read_run(folder: RunFolder, *, sampled: bool = False) -> RunRecord:
    """Read how far a run has come: its state, experiment, metrics (or a sample), checkpoints and last event."""
    from muster.experiment.loading import load_saved

    record = read_state(folder)
    try:
        record.experiment = load_saved(folder.experiment).experiment
    except InputError as error:
        record.problems.append(_relative(str(error), folder))
    try:
        if is_there(folder.metrics):
            path = folder.metrics
            record.rows = read_sampled_metrics(path) if sampled else parse_metrics(read_bytes(path))
    except (OSError, ValueError) as error:
        record.problems.append(_problem(folder.metrics, error))
    try:
        record.last_event = last_json_line(folder.events)
    except OSError as error:
        record.problems.append(_problem(folder.events, error))
    saved = Checkpoints(folder.checkpoints)
    record.checkpoints = [path.name for path in saved.saved()]
    record.best = best.name if (best := saved.best()) else None
    if is_there(folder.checkpoints) and not is_folder(folder.checkpoints):
        record.problems.append(f"checkpoints: is {odd_kind(folder.checkpoints) or 'a file'}, expected a folder")
    return record


def read_experiment(folder: RunFolder, checkpoint: Path, notice: Callable[[str], None]) -> Experiment:
    """Return the experiment of a run; if its file is damaged, that of a checkpoint.

    A run that was fetched or moved imports from the copy of its code that came with it.

    Raises:
        InputError: if both cannot be read.
    """
    from muster.experiment.loading import load_saved

    try:
        experiment = load_saved(folder.experiment).experiment
    except InputError as error:
        if not is_there(checkpoint / EXPERIMENT):
            raise
        notice(f"{_relative(str(error), folder)}; taking the experiment of checkpoint {checkpoint.name}")
        experiment = load_saved(checkpoint / EXPERIMENT).experiment
    return _with_own_code(experiment, folder)


def _with_own_code(experiment: Experiment, folder: RunFolder) -> Experiment:
    env, model = experiment.env, experiment.model
    env = env.model_copy(
        update={"id": _named_here(env.id, folder), "paths": [_found_here(path, folder) for path in env.paths]}
    )
    if model.class_ is not None:
        model = model.model_copy(update={"class_": _named_here(model.class_, folder)})
    return experiment.model_copy(update={"env": env, "model": model})


def _named_here(name: str, folder: RunFolder) -> str:
    """Return `path/to/file.py:Class` with the file's place here."""
    file, colon, attribute = name.rpartition(":")
    return f"{_found_here(file, folder)}:{attribute}" if colon and file.endswith(".py") else name


def _found_here(path: str, folder: RunFolder) -> str:
    """Return where a file or folder is in the run's copy of the code, if it is there and not where it was."""
    original = Path(path)
    if not original.is_absolute() or is_there(original):
        return path
    # The copy of several seeds is in the folder above.
    for code in (folder.path / CODE, folder.path.parent / CODE):
        for parent in original.parents if original.name != CODE else (original, *original.parents):
            if parent.name == CODE and is_there(code / original.relative_to(parent)):
                return str((code / original.relative_to(parent)).resolve())
    return path


def read_state(folder: RunFolder) -> RunRecord:
    """Read only the state of a run, as a list of many needs it."""
    record = RunRecord(folder)
    try:
        record.status, problems = parse_status(read_bytes(folder.status))
        record.problems += [printable(f"{folder.status.name}: {problem}") for problem in problems]
    except FileNotFoundError:
        if not is_there(folder.status) and not is_there(folder.metrics) and not is_there(folder.checkpoints):
            record.status = Status("starting")
        else:
            record.problems.append(f"{folder.status.name}: missing")
    except (OSError, ValueError) as error:
        record.problems.append(_problem(folder.status, error))
    return record


def printable(text: str) -> str:
    """Replace what a terminal would not show as text."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def _problem(path: Path, error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) else None
    return printable(f"{path.name}: {reason or error}")


def _relative(message: str, folder: RunFolder) -> str:
    """Return what is wrong with the experiment in a line."""
    lines = [line.strip() for line in message.replace(f"{folder.experiment}", folder.experiment.name).splitlines()]
    first = lines[0] if len(lines) == 1 or "problem" not in lines[0] else "; ".join(lines[1:])
    return printable(first if folder.experiment.name in first else f"{folder.experiment.name}: {first}")
