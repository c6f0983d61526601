"""What all fake schedulers share: a state folder, hosts and queues, ids, and which job may start when."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals
from typing import Any

from tests.fakes.jobs import CANCELLED, DONE, HELD, IMPOSSIBLE, NEVER, QUEUED, RUNNING, Job, JobTable

ENTRY = Path(__file__).with_name("command.py")
PAUSED = "paused"


class RefusedError(Exception):
    """A command is refused: the scheduler's own text, for standard error, and its exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class HostEntry:
    """A host that jobs run on."""

    name: str
    cpus: int
    memory_mib: int = 4000


@dataclass(frozen=True)
class QueueEntry:
    """The limits of a queue."""

    max_nodes: int | None = None
    min_nodes: int | None = None
    max_cpus: int | None = None
    max_wall_time: float | None = None


@dataclass(frozen=True)
class Configuration:
    """A fake site, as its configuration file holds it."""

    scheduler: str
    hosts: tuple[HostEntry, ...]
    queues: Mapping[str, QueueEntry]
    """The first is the default."""
    on_this_machine: bool = True
    """Else the hosts are reached by ssh."""
    service_host: str | None = None
    """Where Cobalt runs job scripts; None: on the first host of a job."""
    minute: float = 60.0
    """How long a minute of a wall time is: less makes tests fast where schedulers count in minutes."""
    kill_delay: float | None = None
    """Seconds between a job's signals, in place of the scheduler's own."""
    keeps_history: bool = True
    """Whether PBS tells of finished jobs."""

    @classmethod
    def load(cls, path: Path) -> Configuration:
        """Read the file."""
        values = json.loads(path.read_text())
        values["hosts"] = tuple(HostEntry(**host) for host in values["hosts"])
        values["queues"] = {name: QueueEntry(**queue) for name, queue in values["queues"].items()}
        return cls(**values)


@dataclass(frozen=True)
class Scheduler:
    """What is special about one scheduler, as data."""

    name: str
    commands: Mapping[str, Callable[[Site, list[str]], int]]
    limit_signals: tuple[tuple[Signals, float], ...]
    """Sent to a job at its wall time, each with the seconds until the next; the last one is SIGKILL."""
    cancel_signals: tuple[tuple[Signals, float], ...]
    start: Callable[[Site, Job], Any]
    """Start a job on this host, and return a `Work`."""
    finish: Callable[[Site, Job], None] = lambda site, job: None
    """Copy the output to where it belongs, when the job has ended."""
    outages: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """For each command, what it prints and its exit code when the scheduler is down."""
    refusal: tuple[str, int] = ("", 1)
    """The same for a submit command when the site does not let a user submit."""


class Site:
    """A fake scheduler's state, as one of its commands or a job's runner sees it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.configuration = Configuration.load(folder / "site.json")
        self.table = JobTable(folder / "jobs")

    @property
    def programs(self) -> Path:
        """The folder for PATH."""
        return self.folder / "bin"

    @contextmanager
    def locked(self) -> Iterator[JobTable]:
        """The job table, to be changed by nobody else meanwhile."""
        with (self.folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield self.table

    def default_queue(self) -> str:
        """The queue of jobs that name none."""
        return next(iter(self.configuration.queues))

    def submit(self, job: Job, indices: range | None = None) -> int:
        """Enter a job, or an array of them, and return its number."""
        with self.locked() as table:
            number = 1 + max((other.number for other in table.all()), default=0)
            for index in indices if indices is not None else [None]:
                one = Job(**{**vars(job), "number": number, "index": index, "submitted": time.time()})
                if self._is_too_big(one):
                    one.extra["impossible"] = True
                table.add(one)
        self.schedule()
        return number

    def schedule(self) -> None:
        """Start every job that may start now."""
        with self.locked() as table:
            jobs = table.all()
            for job in jobs:
                if job.state in (HELD, QUEUED) and self._advance(job, jobs):
                    table.save(job)
            starting = [job for job in jobs if job.state == QUEUED and self._allocate(job, jobs)]
            for job in starting:
                table.save(job)
        for job in starting:
            self._start_runner(job)

    def cancel(self, job: Job) -> None:
        """End a job, whether it waits or runs."""
        with self.locked() as table:
            job = table.load(job.key)
            if job.state in (HELD, QUEUED):
                job.state, job.reason, job.ended = DONE, CANCELLED, time.time()
                table.save(job)
            elif job.state == RUNNING:
                table.request(job, "cancel")
        self.schedule()

    def command(self, *words: str) -> list[str]:
        """How one of the fakes' own programs is started."""
        return [sys.executable, "-IS", str(ENTRY), str(self.folder), *words]

    def reach(self, host: str, words: list[str]) -> list[str]:
        """How a command is run on a host."""
        return words if self.configuration.on_this_machine else ["ssh", host, shlex.join(words)]

    def _advance(self, job: Job, jobs: list[Job]) -> bool:
        """Look whether a job's dependencies are met; return whether it changed."""
        before = (job.state, job.reason)
        verdicts = {_verdict(dependency.on, dependency.needs, jobs) for dependency in job.dependencies}
        if job.extra.get("user_hold"):
            return False
        if NEVER in verdicts:
            job.state, job.reason = HELD, NEVER
            if not job.extra.get("waits_forever"):
                job.state, job.ended = DONE, time.time()
        elif HELD in verdicts:
            job.state = HELD
        elif job.extra.get("impossible") and job.extra.get("fails_if_impossible"):
            job.state, job.reason, job.ended = DONE, IMPOSSIBLE, time.time()
        else:
            job.state = QUEUED
        return (job.state, job.reason) != before

    def _allocate(self, job: Job, jobs: list[Job]) -> bool:
        """Give a waiting job its hosts, if there are free ones."""
        if (self.folder / PAUSED).exists() or job.extra.get("impossible"):
            return False
        running = [other for other in jobs if other.state == RUNNING]
        siblings = [other for other in running if other.number == job.number]
        if job.array_limit is not None and len(siblings) >= job.array_limit:
            return False
        hosts = self._hosts_for(job, {host.name: self._free(host, running) for host in self.configuration.hosts})
        if hosts is None:
            return False
        job.hosts, job.state, job.started, job.runs = hosts, RUNNING, time.time(), job.runs + 1
        return True

    def _free(self, host: HostEntry, running: list[Job]) -> int:
        return host.cpus - sum(job.cpus * job.hosts.count(host.name) for job in running)

    def _hosts_for(self, job: Job, free: dict[str, int]) -> list[str] | None:
        found: list[str] = []
        for name, cpus in free.items():
            shares = cpus // max(job.cpus, 1)
            found += [name] * min(shares, 1 if job.scatter else job.nodes - len(found))
            if len(found) >= job.nodes:
                return found[: job.nodes]
        return None

    def _is_too_big(self, job: Job) -> bool:
        """Whether even an empty cluster could not run it."""
        enough_memory = [host for host in self.configuration.hosts if host.memory_mib >= job.memory_mib]
        return self._hosts_for(job, {host.name: host.cpus for host in enough_memory}) is None

    def _start_runner(self, job: Job) -> None:
        """Start the process that starts the job, watches it and ends it, on the host of the job's script."""
        host = self.configuration.service_host or job.hosts[0]
        log = self.table.folder(job) / "runner.log"
        words = self.command("run-job", job.key)
        if not self.configuration.on_this_machine:
            words = ["ssh", host, f"setsid -f {shlex.join(words)} >>{log} 2>&1 </dev/null"]
            subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
            return
        with log.open("a") as file:
            subprocess.Popen(
                words,
                env={"PATH": os.defpath, "HOME": os.environ.get("HOME", "/")},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )


def _verdict(on: int, needs: str, jobs: list[Job]) -> str:
    """Say of one dependency whether it is met (DONE), may be (HELD) or cannot be any more (NEVER)."""
    others = [job for job in jobs if job.number == on]
    if any(job.state != DONE for job in others):
        return HELD
    met = needs == "any" or all(job.ok == (needs == "ok") for job in others)
    return DONE if others and met else NEVER
