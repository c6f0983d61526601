"""Temporary folders of ours alone, short enough for Ray's sockets, and never left behind for long."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "muster-"
_LONGEST_PARENT = 30
_OWNER = "owner"


@contextmanager
def temporary_folder(parent: str | Path | None = None) -> Iterator[Path]:
    """Make a folder on this host's own disk for a while.

    A process that is killed cannot remove its own, so each also removes those whose owner has died.
    """
    place = Path(parent or tempfile.gettempdir())
    if len(str(place)) > _LONGEST_PARENT:
        place = Path("/tmp")
    _remove_abandoned(place)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
    with (folder / _OWNER).open("w") as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    for owner in parent.glob(f"{PREFIX}*/{_OWNER}"):
        try:
            if owner.stat().st_uid != os.getuid():
                continue
            with owner.open("r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(owner.parent, ignore_errors=True)
        except OSError:
            continue
