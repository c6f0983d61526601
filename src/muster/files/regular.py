"""Opening regular files only: a fifo or a device in place of a file must never block or fill the memory."""

from __future__ import annotations

import os
import stat
from pathlib import Path

LARGEST_BYTES = 256 * 1024**2
_KINDS = {
    stat.S_IFIFO: "a fifo",
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a link that leads nowhere",
}


class NotRegularError(OSError):
    """What is at a path is no file whose content can be read as a whole."""


def open_regular(path: Path, flags: int = os.O_RDONLY, mode: int = 0o644) -> int:
    """Open a regular file and return its descriptor, without ever waiting for another process.

    Raises:
        OSError: if it cannot be opened, or is not a regular file.
    """
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    except ValueError as error:
        raise NotRegularError(None, str(error), str(path)) from None
    except OSError as error:
        if (what := odd_kind(path)) is not None:
            raise NotRegularError(error.errno, f"is {what}, expected a file", str(path)) from None
        raise
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        raise NotRegularError(None, f"is {_KINDS.get(kind, 'no file')}, expected a file", str(path))
    return descriptor


def read_bytes(path: Path, largest: int = LARGEST_BYTES) -> bytes:
    """Return the content of a regular file.

    Raises:
        OSError: if it cannot be read, is not a regular file, or is larger than the limit.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        # One byte more than it has, to notice a file that grows while it is read.
        content = file.read(size + 1) if size <= largest else b""
    if max(size, len(content)) > largest:
        raise NotRegularError(None, f"has {size:,} bytes, expected at most {largest:,}", str(path))
    return content


def read_text(path: Path, largest: int = LARGEST_BYTES) -> str:
    """Return the text of a regular file; bytes that are not UTF-8 are replaced.

    Raises:
        OSError: as `read_bytes`.
    """
    return read_bytes(path, largest).decode("utf-8", errors="replace")


def is_there(path: Path) -> bool:
    """Whether there is anything at a path, be it a link that leads nowhere; False if that cannot be known."""
    try:
        path.lstat()
    except (OSError, ValueError):
        return False
    return True


def is_regular(path: Path) -> bool:
    """Whether a path leads to a regular file; False if that cannot be known."""
    return _mode(path, stat.S_IFREG)


def is_folder(path: Path) -> bool:
    """Whether a path leads to a folder; False if that cannot be known."""
    return _mode(path, stat.S_IFDIR)


def odd_kind(path: Path) -> str | None:
    """Return what is at a path if it is something else than a regular file: a folder, a fifo, a broken link."""
    try:
        kind = stat.S_IFMT(path.lstat().st_mode)
        if kind == stat.S_IFLNK:
            kind = stat.S_IFMT(path.stat().st_mode)
    except (OSError, ValueError):
        return _KINDS[stat.S_IFLNK] if is_there(path) else None
    return None if kind == stat.S_IFREG else _KINDS.get(kind, "no file")


def _mode(path: Path, kind: int) -> bool:
    try:
        return stat.S_IFMT(path.stat().st_mode) == kind
    except (OSError, ValueError):
        return False
