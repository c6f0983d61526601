"""A fake scheduler's jobs: what is known of each, kept as one JSON file per job."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

HELD, QUEUED, RUNNING, DONE = "held", "queued", "running", "done"
CANCELLED, LIMIT, NEVER, IMPOSSIBLE = "cancelled", "limit", "never", "impossible"
"""Why a job ended otherwise than by itself; NEVER: a dependency cannot be met any more."""


@dataclass
class Dependency:
    """What a job waits for: that another one ends in some way."""

    on: int
    needs: str = "any"
    """`any`, `ok` or `notok`."""


@dataclass
class Job:
    """One job, or one element of an array."""

    number: int
    index: int | None = None
    """Its place in an array; None if it is no element of one."""
    array_limit: int | None = None
    """How many elements of its array may run at the same time."""
    name: str = ""
    queue: str = ""
    state: str = QUEUED
    reason: str = ""
    nodes: int = 1
    cpus: int = 1
    """Per host."""
    memory_mib: int = 0
    """Per host."""
    scatter: bool = True
    """Whether each of its shares must be on a host of its own."""
    wall_time: float | None = None
    """Seconds; None for no limit."""
    command: list[str] = field(default_factory=list)
    """The script, or the program with its arguments."""
    environment: dict[str, str] = field(default_factory=dict)
    folder: str = ""
    """The folder that it was submitted from, or starts in."""
    stdout: str = ""
    stderr: str = ""
    """Empty if both go to `stdout`."""
    dependencies: list[Dependency] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    """One per share, so that a host may repeat."""
    submitted: float = 0.0
    started: float | None = None
    ended: float | None = None
    code: int | None = None
    """Its exit code, or minus the signal that ended it."""
    runs: int = 0
    extra: dict[str, Any] = field(default_factory=dict)
    """What one scheduler alone knows of."""

    @property
    def key(self) -> str:
        """The name of its folder."""
        return str(self.number) if self.index is None else f"{self.number}_{self.index}"

    @property
    def ok(self) -> bool:
        """Whether it ended well."""
        return self.state == DONE and self.code == 0 and not self.reason


class JobTable:
    """All jobs of a scheduler; the caller holds the scheduler's lock while it changes them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def folder(self, job: Job) -> Path:
        """Where the files of a job are: its script, its output before it is copied, requests."""
        return self._folder / job.key

    def add(self, job: Job) -> None:
        """Enter a new job."""
        (self.folder(job) / "requests").mkdir(parents=True)
        self.save(job)

    def save(self, job: Job) -> None:
        """Write a job beside its file, then in place of it."""
        target = self.folder(job) / "job.json"
        beside = target.with_name(f".job-{os.getpid()}.json")
        beside.write_text(json.dumps(asdict(job), indent=1))
        beside.rename(target)

    def load(self, key: str) -> Job:
        """Read one job."""
        values = json.loads((self._folder / key / "job.json").read_text())
        values["dependencies"] = [Dependency(**item) for item in values["dependencies"]]
        return Job(**values)

    def all(self) -> list[Job]:
        """Every job ever submitted, in order."""
        jobs = [self.load(path.parent.name) for path in self._folder.glob("*/job.json")]
        return sorted(jobs, key=lambda job: (job.number, job.index or 0))

    def of(self, number: int, index: int | None = None) -> list[Job]:
        """The jobs of that number: none, one, or an array's elements; with an index, that element alone."""
        return [job for job in self.all() if job.number == number and index in (None, job.index)]

    def request(self, job: Job, what: str) -> None:
        """Ask the job's runner for something: `cancel`, or the name of a signal such as `SIGUSR2`."""
        folder = self.folder(job) / "requests"
        (folder / f"{len(list(folder.iterdir())):04d}-{what}").touch()
