"""Whose files are they? What runs code from a folder asks first whether only its own user can change it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from muster.errors import OwnershipError

OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
OWN_FOLDER, OWN_FILE = 0o755, 0o644
"""Modes of what muster makes where code may be run from: others may read, only the owner may write."""


def require_own(paths: Iterable[Path], what: str, *, trust: bool) -> None:
    """Refuse files that another user owns or can change, since they would run code here.

    Links are followed, and must be our own too. What is not there is left to whoever reads it.

    Raises:
        OwnershipError: naming every such file, unless they are trusted.
    """
    if trust:
        return
    findings = [finding for path in paths if (finding := _finding(path)) is not None]
    if not findings:
        return
    lines = "".join(f"\n  {finding}" for finding in findings[:8])
    more = f"\n  and {len(findings) - 8} more" if len(findings) > 8 else ""
    raise OwnershipError(
        f"{what} would run code from files that another user can change:{lines}{more}\n"
        "    if you trust everyone who can change them, give --trust (in Python: trust=True); "
        "if they are yours, take the write permission from others: chmod -R go-w"
    )


def _finding(path: Path) -> str | None:
    for found in _stats(path):
        if found.st_uid != os.geteuid():
            return f"{path}: belongs to user {found.st_uid}, not to you ({os.geteuid()})"
        if not stat.S_ISLNK(found.st_mode) and found.st_mode & OTHERS_MAY_WRITE:
            return f"{path}: can be changed by others (mode {stat.S_IMODE(found.st_mode):04o})"
    return None


def _stats(path: Path) -> Iterator[os.stat_result]:
    try:
        yield path.lstat()
        yield path.stat()
    except (OSError, ValueError):
        return
