"""Removing runs and what of them is not needed: never one that lives, never through a link."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from muster.errors import InputError, StorageError
from muster.files.regular import read_bytes
from muster.runs.folder import ELSEWHERE, RunFolder
from muster.runs.lock import writers_kept_out
from muster.runs.status import heartbeat_is_fresh, parse_status, read_status


@contextmanager
def kept_ended(folders: Iterable[RunFolder]) -> Iterator[None]:
    """Refuse runs that may live, by heartbeat or lock; keep the others from being resumed for so long.

    Raises:
        InputError: if a heartbeat is fresh.
        RunLockedError: if another process holds a run.
    """
    with ExitStack() as stack:
        for folder in folders:
            status = read_status(folder.status)
            if status is not None and heartbeat_is_fresh(status):
                raise InputError(
                    f"{folder.path}: is {status.state} on {status.host} (pid {status.pid}), so it is not removed\n"
                    "    stop it first: Ctrl-C where it runs, or muster cancel"
                )
            stack.enter_context(writers_kept_out(folder.lock))
        yield


def is_surely_run(folder: RunFolder) -> bool:
    """Whether a folder has more than files that are named as a run's: its status or experiment can be read."""
    from muster.experiment.loading import load_saved

    if not folder.exists():
        return False
    with suppress(OSError, ValueError):
        if not parse_status(read_bytes(folder.status))[1]:
            return True
    try:
        load_saved(folder.experiment)
    except InputError:
        return False
    return True


def remove_folder(path: Path) -> None:
    """Remove a folder with all that is in it; links in it are removed, not followed.

    It gets another name first, so that nobody finds half of it, and its own again if it cannot be removed.

    Raises:
        InputError: if it is a link.
        StorageError: if it cannot be removed.
    """
    if path.is_symlink():
        raise InputError(f"{path}: is a link, expected the folder itself\n    remove the link with rm")
    for folder in _folders(path):
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise _not_removed(path, f"no permission to change {folder}")
    beside = path.with_name(f".{path.name[:200]}.removed-{os.getpid()}")
    try:
        path.rename(beside)
        shutil.rmtree(beside)
    except OSError as error:
        with suppress(OSError):
            beside.rename(path)
        raise _not_removed(path, error.strerror or str(error)) from error


def _folders(path: Path) -> Iterator[Path]:
    yield path
    for parent, names, _ in os.walk(path):
        yield from (folder for name in names if not (folder := Path(parent, name)).is_symlink())


def _not_removed(path: Path, reason: str) -> StorageError:
    return StorageError(f"{path}: cannot be removed: {reason}\n    check its owner and permissions")


def size_of(path: Path) -> int:
    """Return how many bytes the files below a folder have; links are not followed."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += Path(folder, name).lstat().st_size
            except OSError:
                continue
    return total


def lives_elsewhere(path: Path) -> bool:
    """Whether a folder only stands for a run on other hosts."""
    return (path / ELSEWHERE).is_file()
