"""Folders that hold several runs of one experiment: those of `--seeds`, and the trials of a sweep."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from muster.files.regular import is_folder, is_regular
from muster.runs.folder import RunFolder

SWEEP_RECORD = "sweep.json"
SWEEP_FILE = "sweep.toml"
_MEMBERS = {"seeds": re.compile(r"seed-[0-9]+"), "sweep": re.compile(r"trial-[0-9]+")}


@dataclass(frozen=True)
class Group:
    """A folder of several runs, in the order of their numbers."""

    path: Path
    kind: Literal["seeds", "sweep"]
    members: tuple[RunFolder, ...]


def find_group(name: str | Path, directory: Path) -> Group | None:
    """Return the folder of several runs that a user's name or path means; None if it is not one."""
    if not str(name):
        return None
    for path in (Path(name), directory / name):
        if not is_folder(path) or RunFolder(path).exists():
            continue
        if is_regular(path / SWEEP_RECORD):
            return Group(path, "sweep", _members(path, "sweep"))
        if members := _members(path, "seeds"):
            return Group(path, "seeds", members)
    return None


def _members(path: Path, kind: Literal["seeds", "sweep"]) -> tuple[RunFolder, ...]:
    try:
        names = sorted((inner.name for inner in path.iterdir()), key=lambda name: (len(name), name))
    except OSError:
        return ()
    folders = (RunFolder(path / name) for name in names if _MEMBERS[kind].fullmatch(name))
    return tuple(folder for folder in folders if folder.exists())
