"""One look after another at the run folders, for all open pages together."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from muster.runs.finding import list_runs
from muster.runs.folder import RunFolder
from muster.serving.run_rows import RunRow, Signature, read_row, row_files, signature, unreadable_row
from muster.serving.run_table import row_html

_LOG = logging.getLogger("uvicorn.error")
SHARE_FOR_LISTING = 0.01
"""Of the time, so much goes into looking for new runs, however many there are."""
LISTING_SECONDS = 5.0


@dataclass
class SeenRun:
    """A run of the list, as it was at the last look."""

    name: str
    folder: RunFolder
    files: tuple[Path, ...]
    signature: Signature
    row: RunRow
    shown_state: str
    html: str
    """The row of the list."""


class RunWatch:
    """The runs below a folder. What is asked for by name is found among these alone, never on the disk."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.runs: dict[str, SeenRun] = {}
        """By the paths of their pages, in the order of the list: those that started last come first."""
        self.left_out = 0
        """Links that lead out of the folder."""
        self._list_at = 0.0

    def look(self) -> None:
        """Read again what has changed since the last look."""
        began = time.monotonic()
        if began >= self._list_at:
            self._list()
            took = time.monotonic() - began
            self._list_at = began + max(LISTING_SECONDS, took / SHARE_FOR_LISTING)
        for seen in self.runs.values():
            found = signature(seen.files)
            # A run whose heartbeat has stopped is lost without any change of its files.
            if found != seen.signature or seen.row.state != seen.shown_state:
                before = seen.row if found[1:] == seen.signature[1:] else None
                seen.row, seen.html = _read(seen.folder, seen.name, before)
                seen.signature, seen.shown_state = found, seen.row.state

    def _list(self) -> None:
        folders = list_runs(self.root)
        inside = [folder for folder in folders if _is_inside(folder.path, self.root)]
        self.left_out = len(folders) - len(inside)
        found: dict[str, SeenRun] = {}
        for folder in inside:
            name = os.path.relpath(folder.path, self.root)
            known = self.runs.get(address(name))
            found[address(name)] = known if known is not None else _first_seen(folder, name)
        self.runs = found


def address(name: str) -> str:
    """Return a run's name as it stands in the path of its page, whatever bytes it is made of."""
    return quote(os.fsencode(name))


def _first_seen(folder: RunFolder, name: str) -> SeenRun:
    files = row_files(folder)
    found = signature(files)
    row, html = _read(folder, name)
    return SeenRun(name, folder, files, found, row, row.state, html)


def _read(folder: RunFolder, name: str, before: RunRow | None = None) -> tuple[RunRow, str]:
    """Return a run's row; one that cannot be read for an unforeseen reason must not hide the others."""
    try:
        row = read_row(folder, name, before)
        return row, row_html(row, address(name))
    except Exception as error:
        _LOG.exception("%s cannot be shown", folder.path)
        row = unreadable_row(name, error)
        return row, row_html(row, address(name))


def _is_inside(path: Path, root: Path) -> bool:
    try:
        return path.resolve().is_relative_to(root)
    except (OSError, RuntimeError):
        return False
