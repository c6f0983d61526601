"""The memory that this process and those that it started have in use; known on Linux only."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path

MEBIBYTE = 1024**2


def resident_bytes() -> int | None:
    """Return the resident memory of this process and its descendants; None where that cannot be read.

    What this process has freed is given back to the system first, as far as the C library can.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
    own = _resident(os.getpid())
    return None if own is None else own + sum(_resident(child) or 0 for child in _descendants(os.getpid()))


def _resident(process: int) -> int | None:
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def _descendants(process: int) -> set[int]:
    found: set[int] = set()
    for tasks in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError, ValueError):
            found.update(map(int, tasks.read_text().split()))
    return found.union(*map(_descendants, found))
