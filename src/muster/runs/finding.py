"""Finding runs and their checkpoints by what a user types."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from muster.environment_variables import RUNS_DIR_VARIABLE
from muster.errors import InputError
from muster.files.ownership import OWN_FOLDER, require_own
from muster.files.regular import is_folder, is_regular, is_there
from muster.runs.checkpoints import BEST, MANIFEST, Checkpoints, verify
from muster.runs.folder import ELSEWHERE, RunFolder


def find_run(run: str | Path, directory: Path) -> RunFolder:
    """Find a run by its name or its folder.

    Raises:
        InputError: naming the runs there are.
    """
    if not str(run):
        raise InputError("no run is named: the name is empty\n    `muster runs` lists the runs there are")
    for path in (Path(run), directory / run):
        if RunFolder(path).exists():
            return RunFolder(path)
    if any(is_regular(path / ELSEWHERE) for path in (Path(run), directory / run)):
        raise InputError(f"{run}: lives elsewhere, and nothing of it is here yet\n    muster fetch {run}")
    names = [str(folder.path.relative_to(directory)) for folder in list_runs(directory)]
    groups = {str(Path(name).parent) for name in names} - {"."}
    near = difflib.get_close_matches(str(run), [*names, *sorted(groups)], n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise InputError(f"no run {str(run)!r} in {directory}\n    {hint}runs there: {', '.join(names[:8]) or 'none'}")


def is_run(run: str | Path, directory: Path) -> bool:
    """Whether a name or path is that of a run or one of its checkpoints."""
    return _checkpoint_folder(run, directory) is not None or any(
        RunFolder(path).exists() for path in (Path(run), directory / run)
    )


def find_checkpoint(
    run: str | Path, which: str, directory: Path, notice: Callable[[str], None]
) -> tuple[RunFolder, Path]:
    """Find an undamaged checkpoint: of a run by `best`, `latest` or iteration, or by its own folder.

    As long as none is known to be the best, it is the latest.

    Raises:
        InputError: naming what there is.
        CheckpointError: if its files are not what was saved.
    """
    if (own := _checkpoint_folder(run, directory)) is not None:
        folder, checkpoint = RunFolder(own.parent.parent), own
    else:
        folder = find_run(run, directory)
        checkpoints = Checkpoints(folder.checkpoints)
        latest = checkpoints.latest()
        if which == BEST and latest is not None and checkpoints.best() is None:
            notice(f"{folder.name}: not known yet which checkpoint is the best; taking the latest, {latest.name}")
            which = latest.name
        checkpoint = checkpoints.find(which)
    verify(checkpoint)
    return folder, checkpoint


def _checkpoint_folder(run: str | Path, directory: Path) -> Path | None:
    found = (path for path in (Path(run), directory / run) if str(run) and is_regular(path / MANIFEST))
    return next((path.resolve() for path in found), None)


def require_own_run(folder: RunFolder, checkpoints: Sequence[Path], command: str, *, trust: bool) -> None:
    """Refuse to run what another user could have put into a run: the names it imports, its pickled states.

    Raises:
        OwnershipError: naming the files, unless they are trusted.
    """
    paths = [folder.path, folder.experiment, folder.checkpoints]
    for checkpoint in checkpoints:
        paths += [checkpoint, *_entries(checkpoint)]
    require_own(paths, command, trust=trust)


def list_runs(directory: Path) -> list[RunFolder]:
    """Return the runs of a folder, those of several seeds one by one, the newest first."""
    outer = _folders(directory)
    inner = [path for folder in outer if not RunFolder(folder).exists() for path in _folders(folder)]
    found = [folder for path in [*outer, *inner] if (folder := RunFolder(path)).exists() or not _is_readable(path)]
    return sorted(found, key=_age)


def _folders(directory: Path) -> list[Path]:
    return [path for path in _entries(directory) if is_folder(path)]


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except (OSError, ValueError):
        return []


def _is_readable(path: Path) -> bool:
    return os.access(path, os.R_OK | os.X_OK)


def _age(folder: RunFolder) -> float:
    """Return a number that is lower the later a run was started or resumed."""
    for path in (folder.sources, folder.experiment, folder.path):
        try:
            return -path.lstat().st_mtime
        except OSError:
            continue
    return 0.0


def claim_folder(base: str, directory: Path) -> Path:
    """Make a folder that nobody else has: `base`, or the first of `base-2`, `base-3` ... after all that exist.

    Of several processes that do this at once, each gets another one.

    Raises:
        InputError: if none can be made there.
    """
    newest = newest_name(base, directory)
    number = 1 if newest is None else _number(newest, base) + 1
    while True:
        path = directory / (base if number == 1 else f"{base}-{number}")
        try:
            path.mkdir(OWN_FOLDER, parents=True)
        except FileExistsError as error:
            if not is_there(path):
                raise unwritable(path, error) from None
            number += 1
        except (OSError, ValueError) as error:
            raise unwritable(path, error) from None
        else:
            return path


def unwritable(path: Path, error: Exception) -> InputError:
    """Return the error of a run's folder that cannot be made or written."""
    return InputError(
        f"{path}: the run's folder cannot be written: {getattr(error, 'strerror', None) or error}\n"
        f"    choose another place with --runs-dir or {RUNS_DIR_VARIABLE}"
    )


def newest_name(base: str, directory: Path) -> str | None:
    """Return the last of the folders named `base`, `base-2`, `base-3` ..., or None if there is none."""
    pattern = re.compile(rf"{re.escape(base)}(-[0-9]+)?")
    names = [path.name for path in _entries(directory) if pattern.fullmatch(path.name)]
    return max(names, key=lambda name: _number(name, base), default=None)


def _number(name: str, base: str) -> int:
    return int(name.removeprefix(base).removeprefix("-") or 1)
