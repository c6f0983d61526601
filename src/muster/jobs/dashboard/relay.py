"""What a run's host does for a dashboard that is opened on another machine: say where it is, and lead on to it."""

from __future__ import annotations

import json
import select
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from muster.clusters.temporary import temporary_folder
from muster.errors import JobError
from muster.jobs.dashboard.find_dashboard import FoundDashboard, find_dashboard, why_none
from muster.jobs.dashboard.hop import hop
from muster.jobs.dashboard.page import LOOPBACK

LOOK_SECONDS = 2.0


def relay(run: Path) -> None:
    """Print where the dashboard is to be reached from this host, and stay until its launch or the caller ends.

    To a dashboard of another host leads a socket that only this user can open: other users of a login node
    cannot.

    Raises:
        JobError: if that host cannot be reached, or is lost.
    """
    found = find_dashboard(run)
    if found is None:
        _answer({"reason": why_none(run)})
        return
    record = found.record
    answer = {"host": record.hostname, "token": record.token}
    if found.is_here:
        _answer({**answer, "target": f"{LOOPBACK}:{record.port}"})
        _stay(found, lambda: None)
        return
    with temporary_folder() as folder:
        socket = folder / "dashboard"
        with hop(record.host, record.port, str(socket), may_ask=False) as way:
            _answer({**answer, "target": str(socket)})
            _stay(found, way.loss)


def _stay(found: FoundDashboard, loss: Callable[[], str | None]) -> None:
    while not select.select([sys.stdin], [], [], LOOK_SECONDS)[0]:
        if not found.is_up():
            return
        if (reason := loss()) is not None:
            raise JobError(reason)


def _answer(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)
