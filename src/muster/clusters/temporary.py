"""Temporary folders of ours alone, short enough for Ray's sockets, and never left behind for long."""

from __future__ import annotations

import fcntl
import glob
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from muster.errors import ClusterError

PREFIX = "muster-"
RAY_FOLDER = "ray"
"""Ray's own folder inside ours: Ray opens it to everyone, so it must lie where nobody else can enter."""
_LONGEST_PARENT = 23
"""Bytes. A socket's path may have 107, of which our own part and Ray's session take 84."""
_OWNER = "owner"


@contextmanager
def temporary_folder(parent: str | Path | None = None) -> Iterator[Path]:
    """Make a folder on this host's own disk for a while, that only its owner can enter.

    A process that is killed cannot remove its own, so each also removes those whose owner has died.

    Raises:
        ClusterError: if it cannot be made.
    """
    place = Path(parent or tempfile.gettempdir())
    if not _is_fit_for_ray(place) or not _keeps_apart(place):
        place = Path("/tmp")
    _remove_abandoned(place)
    try:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
    except OSError as error:
        raise _cannot_be_used(place, error) from None
    try:
        with _owned(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _owned(folder: Path) -> Iterator[None]:
    try:
        owner = (folder / _OWNER).open("w")
        (folder / RAY_FOLDER).mkdir(mode=0o700)
    except OSError as error:
        raise _cannot_be_used(folder.parent, error) from None
    with owner:
        fcntl.flock(owner, fcntl.LOCK_EX)
        yield


def _is_fit_for_ray(place: Path) -> bool:
    """Whether Ray's sockets have room there, and the path means itself in the patterns by which Ray finds files.

    The folder of an array job has `[1]` in its name.
    """
    return len(os.fsencode(place)) <= _LONGEST_PARENT and glob.escape(str(place)) == str(place)


def _keeps_apart(place: Path) -> bool:
    """Whether nobody else can rename or remove what we make in a folder: it is ours alone, or sticky."""
    try:
        status = place.stat()
    except OSError:
        return False
    is_closed = not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or bool(status.st_mode & stat.S_ISVTX)
    return is_closed and status.st_uid in (0, os.geteuid())


def _remove_abandoned(parent: Path) -> None:
    """Remove folders of ours whose owner has died; whatever others have put there is not touched."""
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if not _is_ours_alone(folder):
                continue
            with (folder / _OWNER).open("r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)


def _is_ours_alone(folder: Path) -> bool:
    status = folder.lstat()
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.geteuid()
        and not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    )


def _cannot_be_used(place: Path, error: OSError) -> ClusterError:
    return ClusterError(
        f"{place}: no temporary folder can be made there: {error.strerror}\n"
        "    free some space, or name another folder on this host's own disk with TMPDIR"
    )
