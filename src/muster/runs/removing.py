"""Removing runs and what of them is not needed: never one that lives, never through a link."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from muster.errors import InputError
from muster.files.regular import is_folder
from muster.runs.files import explained
from muster.runs.folder import ELSEWHERE, RunFolder
from muster.runs.lock import RunLock
from muster.runs.status import heartbeat_is_fresh, read_status


def require_ended(folder: RunFolder, what: str) -> None:
    """Refuse a run that may live: by its heartbeat, or because another process holds it.

    Raises:
        InputError: if its heartbeat is fresh.
        RunLockedError: if another process holds it.
    """
    status = read_status(folder.path / "status.json")
    if status is not None and heartbeat_is_fresh(status):
        raise InputError(
            f"{folder.path}: is {status.state} on {status.host} (pid {status.pid}), so {what}\n"
            "    stop it first: Ctrl-C where it runs, or muster cancel"
        )
    if is_folder(folder.path) and os.access(folder.path, os.W_OK):
        with RunLock(folder.lock):
            pass


def remove_folder(path: Path) -> None:
    """Remove a folder with all that is in it; links in it are removed, not followed.

    It gets another name first, so that nobody finds half of it.

    Raises:
        StorageError: if it cannot be removed.
    """
    if path.is_symlink():
        raise InputError(f"{path}: is a link, expected the folder itself\n    remove the link with rm")
    beside = path.with_name(f".{path.name[:200]}.removed-{os.getpid()}")
    with explained(path, afterwards=""):
        path.rename(beside)
        shutil.rmtree(beside)


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
