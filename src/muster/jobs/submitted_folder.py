"""Which folder a submitted run has: of the name that is given, else the last of its kind, else a new one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import ValidationError

from muster.errors import InputError
from muster.experiment.schema import LONGEST_NAME, Experiment
from muster.jobs.folder import JobFolder
from muster.jobs.limits import measured_need, require_time
from muster.jobs.states import require_ended
from muster.jobs.submission_plan import SubmitOptions
from muster.runs.finding import claim_folder, newest_name, unwritable
from muster.runs.folder import RunFolder


@contextmanager
def chosen_folder(base: str, options: SubmitOptions) -> Iterator[JobFolder]:
    """Choose the run's folder; if planning fails, one that was made for it is removed."""
    path = choose_folder(base, options)
    try:
        if options.resume:
            require_ended(JobFolder(path))
        require_time(options.cluster.cluster, measured_need(RunFolder(path)))
        yield JobFolder(path)
    except BaseException:
        with suppress(OSError):
            path.rmdir()
            path.parent.rmdir()
        raise


def choose_folder(base: str, options: SubmitOptions) -> Path:
    """Return the run's folder: of the name that is given, else the last of that kind to resume, else a new one.

    Raises:
        InputError: if the name is taken, and it is not to be resumed.
    """
    directory = options.directory.resolve()
    newest = newest_name(base, directory) if options.resume else None
    if options.name is None and newest is not None:
        return directory / newest
    if options.name is None:
        if options.writes:
            return claim_folder(base, directory)
        newest = newest_name(base, directory)
        number = 1 if newest is None else int(newest.removeprefix(base).removeprefix("-") or 1) + 1
        return directory / (base if number == 1 else f"{base}-{number}")
    _require_name(options.name)
    folder = directory / options.name
    try:
        is_taken = folder.exists() and any(folder.iterdir())
    except OSError as error:
        raise unwritable(folder, error) from None
    if is_taken and not options.resume:
        raise InputError(
            f"{folder}: a run of that name exists\n"
            "    use --resume to continue it, or another --name to start a new one"
        )
    return folder


def _require_name(name: str) -> None:
    """Refuse what training, which makes a folder of it, would refuse in the job."""
    try:
        Experiment.model_validate({"name": name, "env": {"id": "any"}})
    except ValidationError:
        raise InputError(
            f"--name {name!r}: expected at most {LONGEST_NAME} letters, digits, '.', '_' and '-', "
            "the first a letter or a digit"
        ) from None
