"""What a run's page shows, made once for all who look at it, and renewed for a small share of the time."""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.reports.history import read_history
from muster.reports.page import Page
from muster.reports.run_report import fill, what_it_is
from muster.runs.folder import RunFolder
from muster.serving.run_rows import Signature, row_files, signature

_LOG = logging.getLogger("uvicorn.error")
SHARE = 0.02
"""Of the time, so much of one CPU goes into making the pages of runs that change, of all together."""
MOST_KEPT = 16
_GZIP_LEVEL = 3


@dataclass(frozen=True)
class Content:
    """What was made of a run folder at one time."""

    made_of: Signature
    version: str
    lead: str
    parts: list[tuple[str, str]]
    """Each part of the page, with what tells whether it has changed."""
    figures: dict[str, dict[str, Any]]
    packed: bytes
    """Parts and figures as compressed JSON."""


class Contents:
    """The newest contents of the runs that somebody has looked at."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Content] = OrderedDict()
        self._making = threading.Lock()
        self._next_at = 0.0

    def get(self, folder: RunFolder, name: str) -> Content:
        """Return the content of a run as it is now."""
        with self._making:
            kept = self._kept.get(name)
            found = signature(_files(folder))
            if kept is None or kept.made_of != found:
                kept = self._make(folder, name, found)
            return kept

    def newest(self, name: str) -> Content | None:
        """Return the content that was made last."""
        return self._kept.get(name)

    def renew(self, folders: Mapping[str, RunFolder]) -> None:
        """Make the content of runs that have changed, the oldest first, for its share of the time."""
        with self._making:
            kept = [name for name in self._kept if name in folders]
            for name in (*(folders.keys() - set(kept)), *kept):
                if time.monotonic() < self._next_at:
                    return
                found = signature(_files(folders[name]))
                if name not in kept or self._kept[name].made_of != found:
                    self._make(folders[name], name, found)

    def _make(self, folder: RunFolder, name: str, found: Signature) -> Content:
        began = time.perf_counter()
        try:
            made = _content(folder, found)
        except Exception as error:
            # One run that cannot be read for an unforeseen reason must not leave the others as they are.
            _LOG.exception("%s cannot be shown", folder.path)
            made = _packed(found, "", _problem(folder, error))
        self._kept[name] = made
        self._kept.move_to_end(name)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        self._next_at = time.monotonic() + (time.perf_counter() - began) / SHARE
        return made


def _content(folder: RunFolder, found: Signature) -> Content:
    history, page = read_history(folder), Page(folder.name, "")
    fill(page, history)
    return _packed(found, what_it_is(history), page)


def _problem(folder: RunFolder, error: Exception) -> Page:
    page = Page(folder.name, "")
    page.heading("Missing or damaged")
    page.list([f"This run cannot be shown: {error!r}"], "problems")
    return page


def _packed(found: Signature, lead: str, page: Page) -> Content:
    parts = _marked(page.parts)
    table = {"lead": lead, "parts": parts, "figures": page.figures}
    text = json.dumps(table, separators=(",", ":"), allow_nan=False)
    version = hashlib.sha256(text.encode()).hexdigest()[:16]
    return Content(found, version, lead, parts, page.figures, gzip.compress(text.encode(), _GZIP_LEVEL))


def _marked(parts: Sequence[str]) -> list[tuple[str, str]]:
    """Return parts, each with what no other has: a digest, and of equal ones their number."""
    digests = [hashlib.sha256(part.encode("utf-8", "replace")).hexdigest()[:16] for part in parts]
    numbers = [digests[:at].count(digest) for at, digest in enumerate(digests)]
    return [(f"{digest}-{number}", part) for digest, number, part in zip(digests, numbers, parts, strict=True)]


def _files(folder: RunFolder) -> tuple[Any, ...]:
    _, *others = row_files(folder)
    more = (
        folder.evaluations,
        folder.events,
        folder.failures,
        folder.checkpoints,
        folder.sources,
        folder.versions,
    )
    # Not the status, which says every few seconds that the run lives: its state and counts are shown at once.
    return (*others, *more)
