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


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn the operating system's refusals to write below a path into an error that says what to do."""
    try:
        yield
    except OSError as error:
        hint = (
            "free some space"
            if error.errno in (errno.ENOSPC, errno.EDQUOT)
            else "check the path and its permissions"
        )
        raise StorageError(
            f"{error.filename or path}: cannot be written: {error.strerror or error}\n"
            f"    {hint}, then go on with --resume; checkpoints saved before are intact"
        ) from error


def write_text(path: Path, text: str, *, durable: bool = True, private: bool = False) -> None:
    """Replace a file as a whole; if durable, so that it outlives a crash; if private, for our eyes alone."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 if private else 0o666)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_json(path: Path, value: Any, *, durable: bool = True) -> None:
    """Replace a JSON file as a whole."""
    write_text(path, json.dumps(value, indent=2) + "\n", durable=durable)


def append_json_line(path: Path, value: Any) -> None:
    """Append one line to a `.jsonl` file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(value) + "\n")


def read_json_lines(path: Path) -> list[Any]:
    """Return the values of a `.jsonl` file; a last line that was cut off is left out."""
    if not path.is_file():
        return []
    values = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            values.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return values


def cut_json_lines(path: Path, keep: Callable[[Any], bool]) -> None:
    """Leave only some of the lines of a `.jsonl` file."""
    if path.is_file():
        kept = [line for line in read_json_lines(path) if keep(line)]
        write_text(path, "".join(json.dumps(line) + "\n" for line in kept))


def sync_folder(folder: Path) -> None:
    """Make sure that what was created, renamed or removed in a folder stays so after a crash."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
