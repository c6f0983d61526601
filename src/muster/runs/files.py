"""Writing shared files so that a reader never sees half of one: write beside, sync, rename."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from muster.errors import StorageError
from muster.files.ownership import OWN_FILE
from muster.files.regular import open_regular, read_text
from muster.runs.numbers import parse_json

_TAIL_BYTES = 65_536
"""How much of a file's end is searched for its last line; lines are far shorter."""


_AFTERWARDS = "then continue with --resume; checkpoints saved before are intact"


@contextmanager
def explained(path: Path, afterwards: str = _AFTERWARDS) -> Iterator[None]:
    """Turn the operating system's refusals to write below a path into an error that says what to do.

    What is to be done afterwards is that of training, unless it is given.
    """
    try:
        yield
    except OSError as error:
        hint = (
            "free some space"
            if error.errno in (errno.ENOSPC, errno.EDQUOT)
            else "check the path and its permissions"
        )
        if afterwards:
            hint = f"{hint}, {afterwards}"
        raise StorageError(
            f"{error.filename or path}: cannot be written: {error.strerror or error}\n    {hint}"
        ) from error


def write_bytes(path: Path, content: bytes, *, durable: bool = True, private: bool = False) -> None:
    """Replace a file as a whole; if durable, so that it outlives a crash; if private, for our eyes alone."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    # A link that somebody put there is not written through, and what a killed process left does not stop us.
    beside.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    descriptor = os.open(beside, flags, 0o600 if private else OWN_FILE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_text(path: Path, text: str, *, durable: bool = True, private: bool = False) -> None:
    """Replace a text file as `write_bytes` does."""
    write_bytes(path, text.encode(), durable=durable, private=private)


def write_json(path: Path, value: Any, *, durable: bool = True) -> None:
    """Replace a JSON file as a whole."""
    write_text(path, json.dumps(value, indent=2, default=str) + "\n", durable=durable)


def append_json_line(path: Path, value: Any) -> None:
    """Append one line to a `.jsonl` file; a last line that was cut off is ended first."""
    with os.fdopen(open_regular(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "r+b") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
        separator = b"" if file.read(1) in (b"", b"\n") else b"\n"
        file.write(separator + json.dumps(value, default=str).encode() + b"\n")


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Return the tables of a `.jsonl` file; lines that were cut off or damaged are left out.

    Raises:
        OSError: if the file is there, but cannot be read.
    """
    try:
        lines = read_text(path).splitlines()
    except FileNotFoundError:
        return []
    return [value for line in lines if (value := _table(line)) is not None]


def last_json_line(path: Path) -> dict[str, Any] | None:
    """Return the last table of a `.jsonl` file, from its end alone; None if there is none.

    Raises:
        OSError: if the file is there, but cannot be read.
    """
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            tail = file.read(_TAIL_BYTES)
    except FileNotFoundError:
        return None
    lines = reversed(tail.decode("utf-8", errors="replace").splitlines())
    return next((value for line in lines if (value := _table(line)) is not None), None)


def _table(line: str) -> dict[str, Any] | None:
    try:
        value = parse_json(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def cut_json_lines(path: Path, keep: Callable[[dict[str, Any]], bool]) -> None:
    """Leave only some of the lines of a `.jsonl` file."""
    lines = read_json_lines(path)
    if len(kept := [line for line in lines if keep(line)]) < len(lines):
        write_text(path, "".join(json.dumps(line) + "\n" for line in kept))


def sync_folder(folder: Path) -> None:
    """Make sure that what was created, renamed or removed in a folder stays so after a crash."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
