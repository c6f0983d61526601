"""Ray's dashboard of a run on a port of this machine, by whichever way leads to it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from muster.errors import InputError, JobError
from muster.jobs.dashboard.find_dashboard import FoundDashboard
from muster.jobs.dashboard.hop import hop
from muster.jobs.dashboard.page import LOOPBACK, await_page, free_port
from muster.jobs.places.connection import CONNECT_SECONDS
from muster.jobs.places.record import RunElsewhere, last_line
from muster.jobs.places.ssh import SshPlace

_PUBLIC_PATH = "/api/authentication_mode"
_RELAY_SECONDS = 2.0 * CONNECT_SECONDS + 20


@dataclass(frozen=True)
class RayPage:
    """Ray's dashboard as a browser on this machine reaches it."""

    port: int
    token: str
    host: str
    is_up: Callable[[], bool]
    """Whether the launch has not ended, as far as is known."""
    loss: Callable[[], str | None]
    """Returns why the way to it is lost, or None."""

    @property
    def address(self) -> str:
        """What to type into a browser."""
        return f"http://{LOOPBACK}:{self.port}"


@contextmanager
def open_page(found: FoundDashboard, wanted: int | None) -> Iterator[RayPage]:
    """Open the dashboard of a run on this file system: directly, or through ssh to the head's host.

    Raises:
        JobError: if the host cannot be reached, or the page does not answer.
    """
    record = found.record
    if found.is_here:
        if wanted not in (None, record.port):
            raise InputError(f"--port {wanted}: Ray's dashboard is on this machine already, at port {record.port}")
        page = RayPage(record.port, record.token, record.hostname, found.is_up, lambda: None)
        await_page(page.port, _PUBLIC_PATH, lambda: None if found.is_up() else "the run has ended")
        yield page
        return
    port = free_port(wanted)
    with hop(record.host, record.port, f"{LOOPBACK}:{port}", may_ask=sys.stdin.isatty()) as way:
        await_page(port, _PUBLIC_PATH, way.loss)
        yield RayPage(port, record.token, record.hostname, found.is_up, way.loss)


@contextmanager
def open_page_elsewhere(run: RunElsewhere, wanted: int | None) -> Iterator[RayPage]:
    """Open the dashboard of a run that is reached by ssh: its first host leads on to the head's, if need be.

    Raises:
        JobError: if the run has none now, a host cannot be reached, or the page does not answer.
    """
    connection, relay = SshPlace(run.record).converse(["relay", run.folder])
    try:
        answer = _first_answer(connection.host, relay)
        if answer.get("reason"):
            raise JobError(answer["reason"])
        port = free_port(wanted)

        def is_up() -> bool:
            return relay.poll() != 0

        def loss() -> str | None:
            return f"{connection.host}: {_complaint(relay)}" if relay.poll() else None

        with connection.forward(port, answer["target"]):
            await_page(port, _PUBLIC_PATH, loss)
            yield RayPage(port, answer["token"], answer["host"], is_up, loss)
    finally:
        _end(relay)


def _first_answer(host: str, relay: subprocess.Popen[str]) -> dict[str, Any]:
    """Return what the relay says of the dashboard, after what a login shell may have said."""
    assert relay.stdout is not None
    too_late = threading.Timer(_RELAY_SECONDS, relay.terminate)
    too_late.start()
    try:
        for line in relay.stdout:
            with suppress(ValueError):
                answer = json.loads(line)
                if isinstance(answer, dict) and {"reason", "target"} & answer.keys():
                    return answer
    finally:
        too_late.cancel()
    relay.wait()
    raise JobError(f"{host}: {_complaint(relay)}")


def _complaint(relay: subprocess.Popen[str]) -> str:
    assert relay.stderr is not None
    said = last_line(relay.stderr.read()) if relay.poll() is not None and not relay.stderr.closed else ""
    return said.removeprefix("error: ") or "the connection was lost"


def _end(relay: subprocess.Popen[str]) -> None:
    """Close the pipe, at which the relay ends by itself; if it does not, end our side of it."""
    assert relay.stdin is not None
    with suppress(OSError):
        relay.stdin.close()
    try:
        relay.wait(timeout=5)
    except subprocess.TimeoutExpired:
        relay.terminate()
        relay.wait()
    for stream in (relay.stdout, relay.stderr):
        if stream is not None:
            stream.close()
