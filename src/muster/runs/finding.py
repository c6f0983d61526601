"""Finding runs and their checkpoints by what a user types."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from muster.errors import InputError
from muster.runs.checkpoints import BEST, MANIFEST, Checkpoints, verify
from muster.runs.folder import RunFolder


def find_run(run: str | Path, directory: Path) -> RunFolder:
    """Find a run by its name or its folder.

    Raises:
        InputError: naming the runs there are.
    """
    for path in (Path(run), directory / run):
        if RunFolder(path).exists():
            return RunFolder(path)
    names = ", ".join(str(folder.path.relative_to(directory)) for folder in list_runs(directory)[:8])
    raise InputError(f"no run {str(run)!r} in {directory}\n    runs there: {names or 'none'}")


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
        if which == BEST and latest is not None and not checkpoints.has_best:
            notice(f"{folder.name}: not known yet which checkpoint is the best; taking the latest, {latest.name}")
            which = latest.name
        checkpoint = checkpoints.find(which)
    verify(checkpoint)
    return folder, checkpoint


def _checkpoint_folder(run: str | Path, directory: Path) -> Path | None:
    found = (path.resolve() for path in (Path(run), directory / run) if (path / MANIFEST).is_file())
    return next(found, None)


def list_runs(directory: Path) -> list[RunFolder]:
    """Return the runs of a folder, those of several seeds one by one, the newest first."""
    files = [*directory.glob("*/experiment.toml"), *directory.glob("*/*/experiment.toml")]
    found = [folder for file in files if (folder := RunFolder(file.parent)).exists()]
    return sorted(found, key=lambda folder: folder.sources.stat().st_mtime, reverse=True)


def unused_name(base: str, directory: Path) -> str:
    """Return `base`, or the first of `base-2`, `base-3` ... after all that exist."""
    newest = newest_name(base, directory)
    return base if newest is None else f"{base}-{_number(newest, base) + 1}"


def newest_name(base: str, directory: Path) -> str | None:
    """Return the last of the folders named `base`, `base-2`, `base-3` ..., or None if there is none."""
    pattern = re.compile(rf"{re.escape(base)}(-\d+)?")
    names = [path.name for path in directory.glob(f"{base}*") if pattern.fullmatch(path.name)]
    return max(names, key=lambda name: _number(name, base), default=None)


def _number(name: str, base: str) -> int:
    return int(name.removeprefix(base).removeprefix("-") or 1)
