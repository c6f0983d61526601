"""What open pages are told: one task looks at the run folders while any page is open, and wakes all of them."""

from __future__ import annotations

import asyncio
import html
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator

from anyio import to_thread

from muster.runs.reading import printable
from muster.serving.log_tail import log_file, log_tail
from muster.serving.run_content import Contents
from muster.serving.run_rows import signature
from muster.serving.run_table import moment_html, state_html
from muster.serving.run_watch import RunWatch, SeenRun

_LOG = logging.getLogger("uvicorn.error")
LOOK_SECONDS = 2.0
SHARE = 0.01
"""Of the time, so much of one CPU goes into looking."""

Event = dict[str, str]


class Feed:
    """The runs as they were at the last look, and the pages that wait for the next one."""

    def __init__(self, watch: RunWatch) -> None:
        self.watch = watch
        self.contents = Contents()
        self._looked = asyncio.Event()
        self._opened = asyncio.Event()
        self._looking = asyncio.Lock()
        self._last_look = float("-inf")
        self._readers = 0
        self._watched: Counter[str] = Counter()
        self._logs: dict[str, tuple[object, str]] = {}

    async def run(self) -> None:
        """Look as long as any page is open."""
        while True:
            await self._opened.wait()
            began = time.monotonic()
            try:
                await self._look()
            except Exception:
                # One folder that cannot be read for an unforeseen reason must not leave all pages as they are.
                _LOG.exception("the run folders could not be read")
            await asyncio.sleep(max(LOOK_SECONDS, (time.monotonic() - began) / SHARE))

    async def fresh(self) -> None:
        """Look now, unless that was done a moment ago."""
        if time.monotonic() - self._last_look > LOOK_SECONDS:
            await self._look()

    async def list_events(self) -> AsyncGenerator[Event]:
        """Yield the rows of the list, then those that change."""
        sent: dict[str, str] = {}
        order: list[str] = []
        async for _ in self._looks():
            rows = {path: seen.html for path, seen in self.watch.runs.items()}
            changed = {path: row for path, row in rows.items() if sent.get(path) != row}
            if changed or order != list(rows):
                sent, order = rows, list(rows)
                yield {"event": "rows", "data": json.dumps({"order": order, "rows": changed})}

    async def run_events(self, path: str) -> AsyncGenerator[Event]:
        """Yield what changes of a run: its state, its log, and which version of its content there is."""
        sent: dict[str, str] = {}
        self._watched[path] += 1
        try:
            async for _ in self._looks():
                for event, data in self._of_run(path).items():
                    if sent.get(event) != data:
                        sent[event] = data
                        yield {"event": event, "data": data}
        finally:
            self._watched[path] -= 1

    async def _looks(self) -> AsyncIterator[None]:
        """Yield now and after each look."""
        self._readers += 1
        self._opened.set()
        try:
            while True:
                looked = self._looked
                yield
                await looked.wait()
        finally:
            self._readers -= 1
            if not self._readers:
                self._opened.clear()

    async def _look(self) -> None:
        async with self._looking:
            await to_thread.run_sync(self._read)
            self._last_look = time.monotonic()
        looked, self._looked = self._looked, asyncio.Event()
        looked.set()

    def _read(self) -> None:
        self.watch.look()
        watched = {path for path, readers in list(self._watched.items()) if readers}
        found = {path: seen for path in watched if (seen := self.watch.runs.get(path)) is not None}
        for path, seen in found.items():
            self._read_log(path, seen)
        self.contents.renew({path: seen.folder for path, seen in found.items()})
        self._logs = {path: log for path, log in self._logs.items() if path in found}

    def _read_log(self, path: str, seen: SeenRun) -> None:
        file = log_file(seen.folder.path)
        found = (file, signature((file,)) if file is not None else None)
        if path not in self._logs or self._logs[path][0] != found:
            self._logs[path] = (found, json.dumps(log_tail(file)))

    def _of_run(self, path: str) -> Event:
        seen = self.watch.runs.get(path)
        if seen is None:
            return {"state": '<span class="problems">this run is not in the folder any more</span>'}
        events = {"state": summary_html(seen)}
        if path in self._logs:
            events["log"] = self._logs[path][1]
        if (content := self.contents.newest(path)) is not None:
            events["content"] = content.version
        return events


def summary_html(seen: SeenRun) -> str:
    """Return how a run is now, in a line."""
    status = seen.row.status
    reason = f": {html.escape(printable(status.reason))}" if status.reason else ""
    words = [f"{state_html(seen.row.state)}{reason}", f"iteration {status.iteration:,}", f"{status.steps:,} steps"]
    if status.return_mean is not None:
        words.append(f"mean return {status.return_mean:,.4g}")
    if status.updated:
        words.append(f"updated {moment_html(status.updated)}")
    return " · ".join(words)
