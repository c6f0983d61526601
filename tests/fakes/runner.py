"""The process beside each running job: starts it, keeps its wall time, carries out cancels, notes its end."""

from __future__ import annotations

import signal
import time
from typing import Protocol

from tests.fakes.core import Scheduler, Site
from tests.fakes.jobs import CANCELLED, DONE, LIMIT, QUEUED, Job
from tests.fakes.work import POLL_SECONDS


class Work(Protocol):
    """What runs for a job."""

    def code(self) -> int | None: ...
    def is_over(self) -> bool: ...
    def send(self, number: int) -> None: ...


class Ending:
    """A series of signals, each sent when its time has come."""

    def __init__(self, signals: tuple[tuple[signal.Signals, float], ...], delay: float | None) -> None:
        self._left = list(signals)
        self._delay = delay
        self._next = 0.0

    def act(self, work: Work) -> None:
        """Send what is due."""
        if self._left and time.monotonic() >= self._next:
            number, seconds = self._left.pop(0)
            work.send(number)
            self._next = time.monotonic() + (seconds if self._delay is None else self._delay)


def run_job(site: Site, scheduler: Scheduler, key: str) -> int:
    """Run a job to its end."""
    job = site.table.load(key)
    work: Work = scheduler.start(site, job)
    reason = _watch(site, scheduler, job, work)
    code = work.code()
    work.send(signal.SIGKILL)
    with site.locked() as table:
        job = table.load(key)
        job.code, job.reason, job.ended = code, reason, time.time()
        job.state = DONE
        scheduler.finish(site, job)
        if code in job.extra.get("requeue_codes", []) and not reason:
            job.state, job.hosts = QUEUED, []
        table.save(job)
    site.schedule()
    return 0


def _watch(site: Site, scheduler: Scheduler, job: Job, work: Work) -> str:
    """Wait for the end of a job, and make it end when it must; return why it had to."""
    delay = site.configuration.kill_delay
    deadline = None if job.wall_time is None else time.monotonic() + job.wall_time
    warning, before = job.extra.get("warning", ["", 0.0])
    requests = site.table.folder(job) / "requests"
    reason, ending = "", None
    seen: set[str] = {path.name for path in requests.iterdir()} if job.runs > 1 else set()
    while not (work.is_over() if ending else work.code() is not None):
        for path in sorted(requests.iterdir()):
            what = path.name.partition("-")[2]
            if path.name not in seen and what == "cancel":
                reason, ending = CANCELLED, Ending(scheduler.cancel_signals, delay)
            elif path.name not in seen:
                work.send(signal.Signals[what])
            seen.add(path.name)
        if warning and deadline is not None and time.monotonic() > deadline - before:
            work.send(signal.Signals[warning])
            warning = ""
        if ending is None and deadline is not None and time.monotonic() > deadline:
            reason, ending = LIMIT, Ending(scheduler.limit_signals, delay)
        if ending:
            ending.act(work)
        time.sleep(POLL_SECONDS)
    return reason
