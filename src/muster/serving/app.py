"""The addresses of the live page, and what each answers."""

from __future__ import annotations

import asyncio
import gzip
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import unquote_to_bytes

from anyio import to_thread
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from muster.errors import MusterError
from muster.jobs.stopping import SIGNALLED, stop_run
from muster.reports.reporting import report_of
from muster.serving.access import Guard
from muster.serving.feed import Feed
from muster.serving.live_pages import Assets, groups_of, list_page, run_page
from muster.serving.log_tail import log_file, log_tail
from muster.serving.run_watch import RunWatch, SeenRun, address

PING_SECONDS = 15
SANDBOX = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; media-src data:; font-src data:; base-uri 'none'; form-action 'none'"
)
"""A report has its scripts in it, so it is not of this server's origin: it can ask this server for nothing."""
_LASTING = "private, max-age=31536000, immutable"


class _Anything(Convertor[str]):
    """The rest of an address, with what a name may hold besides: ends of lines."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("anything", _Anything())


class LiveApp:
    """Answers requests that the guard has let through."""

    def __init__(self, root: Path, notice: Callable[[str], None]) -> None:
        self._feed = Feed(RunWatch(root))
        self._assets = Assets()
        self._packed: dict[str, bytes] = {}
        self._notice = notice
        self._told: set[tuple[str, str, int]] = set()

    def guarded(self, token: str, cookie: str) -> Guard:
        """Return the app, which only whoever holds the token can ask."""
        routes = [
            Route("/", self.list),
            Route("/events", self.list_events),
            Route("/events/{run:anything}", self.run_events),
            Route("/runs/{run:anything}", self.run),
            Route("/content/{run:anything}", self.content),
            Route("/report/{run:anything}", self.report),
            Route("/stop/{run:anything}", self.stop, methods=["POST"]),
            Route("/assets/{name}", self.asset),
        ]
        return Guard(Starlette(routes=routes, lifespan=self._lifespan), token, cookie)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(self._feed.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def list(self, _: Request) -> Response:
        """The page with all runs."""
        await self._feed.fresh()
        return _page(await to_thread.run_sync(list_page, self._feed.watch, self._assets))

    async def run(self, request: Request) -> Response:
        """The page of a run."""
        path, seen = await self._find(request)
        if seen is None:
            return _not_found()

        def made() -> str:
            content = self._feed.contents.get(seen.folder, path)
            return run_page(seen, path, content, log_tail(log_file(seen.folder.path)), self._assets)

        return _page(await to_thread.run_sync(made))

    async def content(self, request: Request) -> Response:
        """What a run's page shows now, for a page that is open."""
        path, seen = await self._find(request)
        if seen is None:
            return _not_found()
        found = self._feed.contents.newest(path)
        if found is None:
            found = await to_thread.run_sync(self._feed.contents.get, seen.folder, path)
        headers = {"Content-Encoding": "gzip", "X-Version": found.version}
        return Response(found.packed, media_type="application/json", headers=headers)

    async def list_events(self, _: Request) -> Response:
        """The rows of the list as they change."""
        return EventSourceResponse(self._feed.list_events(), ping=PING_SECONDS)

    async def run_events(self, request: Request) -> Response:
        """What changes of a run."""
        path, seen = await self._find(request)
        if seen is None:
            return _not_found()
        return EventSourceResponse(self._feed.run_events(path), ping=PING_SECONDS)

    async def report(self, request: Request) -> Response:
        """The report of a run, a sweep or a folder of several seeds, as `muster report` writes it."""
        await self._feed.fresh()
        watch, path = self._feed.watch, _path(request, "/report/")
        name = os.fsdecode(unquote_to_bytes(path))
        if path not in watch.runs and name not in groups_of(seen.name for seen in watch.runs.values()):
            return _not_found()
        target = str(watch.root / name)
        inside = {seen.folder.path for seen in watch.runs.values()}

        def made() -> str:
            report = report_of(target, watch.root)
            report.group.runs = [run for run in report.group.runs if run.folder.path in inside]
            return report.html()

        text = await to_thread.run_sync(made)
        return _page(text, {"Content-Security-Policy": SANDBOX})

    async def stop(self, request: Request) -> Response:
        """Let a run save and end."""
        path, seen = await self._find(request)
        if seen is None:
            return _not_found()
        status = seen.row.status
        mark = (path, status.host, status.pid)
        if mark in self._told:
            return PlainTextResponse("has been asked to save and stop already", status_code=409)
        self._told.add(mark)
        said = ""
        try:
            said = await to_thread.run_sync(stop_run, seen.folder, self._notice)
        except MusterError as error:
            return PlainTextResponse(str(error), status_code=409)
        finally:
            # A second signal would end a process before it has saved; to cancel a job twice does no harm.
            if said != SIGNALLED:
                self._told.discard(mark)
        self._notice(f"{seen.name}: {said}, as asked on its page")
        return PlainTextResponse(said)

    async def asset(self, request: Request) -> Response:
        """A script or style sheet."""
        name = str(request.path_params["name"])
        if name not in self._assets.files:
            return _not_found()
        content, kind = self._assets.files[name]
        if name not in self._packed:
            self._packed[name] = await to_thread.run_sync(gzip.compress, content, 6)
        headers = {"Content-Encoding": "gzip", "Cache-Control": _LASTING}
        return Response(self._packed[name], media_type=kind, headers=headers)

    async def _find(self, request: Request) -> tuple[str, SeenRun | None]:
        """Return a run by the name in an address: it is one of the list, or none."""
        path = _path(request, f"/{request.url.path.split('/')[1]}/")
        await self._feed.fresh()
        return path, self._feed.watch.runs.get(path)


def _path(request: Request, prefix: str) -> str:
    """Return what follows in an address, as the list has it: a browser may have escaped more of it, or less."""
    raw = bytes(request.scope["raw_path"]).partition(b"?")[0].decode("latin-1")
    return address(os.fsdecode(unquote_to_bytes(raw.removeprefix(prefix))))


def _page(text: str, headers: dict[str, str] | None = None) -> Response:
    return Response(text.encode("utf-8", "replace"), media_type="text/html; charset=utf-8", headers=headers)


def _not_found() -> Response:
    return PlainTextResponse("no such page; the list of runs is at /\n", status_code=404)
