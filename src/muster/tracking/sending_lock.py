"""One sender of a run to a place at a time: two would ask the tracker what it has, and both send the rest."""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path
from typing import TextIO

from muster.errors import RunLockedError
from muster.jobs.places.wheels import cache_folder


def lock_sending(run: str, identity: str, place: str) -> TextIO | None:
    """Return a file of this user's that is locked until it is closed; None where no file can be locked.

    Raises:
        RunLockedError: if another process on this machine sends the run there.
    """
    digest = hashlib.sha256(f"{identity} {place}".encode("utf-8", "replace")).hexdigest()[:32]
    try:
        file = _opened(cache_folder() / "tracking" / digest)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise RunLockedError(
            f"{run}: another `muster track` is sending this run there\n    wait until it has ended, or end it"
        ) from None
    except OSError:
        file.close()
        return None
    return file


def _opened(path: Path) -> TextIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w")
