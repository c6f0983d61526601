"""Paths as a person reads them: from the folder they are in, where that is shorter."""

from __future__ import annotations

from pathlib import Path

from muster.files.carried import is_carried


def short_path(path: str | Path) -> str:
    """Return a path below the current folder as a relative one; any other as it is."""
    given = Path(path)
    try:
        return str(given.relative_to(Path.cwd())) if given.is_absolute() else str(given)
    except (OSError, ValueError):
        return str(given)


def short_name(name: str) -> str:
    """Return the name of a simulator or network, with a short path if it is `path/to/file.py:Class`."""
    file, colon, attribute = name.rpartition(":")
    if is_carried(name):
        return attribute
    return f"{short_path(file)}:{attribute}" if colon and file.endswith(".py") else name
