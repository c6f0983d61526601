"""What a run's folder holds of its jobs: the script, what to run, and the links of the chain in `jobs.jsonl`."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from muster.clusters.launching.usage import usage_folder
from muster.clusters.named import RAY, SCHEDULERS, SSH
from muster.errors import InputError
from muster.files.ownership import OWN_FOLDER, require_own
from muster.files.regular import is_folder, is_regular, is_there, read_bytes
from muster.runs.files import append_json_line, explained, read_json_lines, write_json, write_text
from muster.runs.folder import CODE, ELSEWHERE, RunFolder

SUBMITTED, STARTED, LINK_ENDED = "submitted", "started", "ended"
_ID = re.compile(r"[A-Za-z0-9ƒ][\w.\[\]ƒ-]*")
_KINDS = ("train", "sweep", "command", "doctor", "seeds")
_LARGEST_USAGE = 65_536
_LARGEST_COUNT = 2**63 - 1


@dataclass(frozen=True)
class Order:
    """What was submitted; the same for all jobs of a chain."""

    kind: str
    """`train`, `sweep`, `command`, `doctor`, or `seeds` for the folder of an array."""
    cluster: str
    scheduler: str
    command: list[str] = field(default_factory=list)
    """What each job runs."""
    chain: str = "none"
    max_jobs: int = 1
    links_before: int = 0
    """Links of earlier submissions of the same run, which do not count."""
    nodes: int = 1
    cpus: int | None = None
    """CPUs of each host, where a number was asked for."""
    wall_time: float | None = None
    commit: str | None = None
    """The commit of the code, with `-dirty` if it had changes, which are in `job/changes.diff`."""


@dataclass
class Link:
    """One start of a job of the chain."""

    number: int
    job_id: str
    started: float
    progress: int | None
    """What was done when it started: iterations, or steps of a sweep; None for a command."""
    host: str = ""
    ended: float | None = None
    exit_code: int | None = None
    cpu_seconds: float | None = None
    memory: int | None = None


class JobFolder:
    """The jobs of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def run(self) -> RunFolder:
        """The run itself."""
        return RunFolder(self.path)

    @property
    def folder(self) -> Path:
        """The job script and the scheduler's output."""
        return self.path / "job"

    @property
    def script(self) -> Path:
        """What is submitted."""
        return self.folder / "job.sh"

    @property
    def code(self) -> Path:
        """The copy of the project's files."""
        return self.path / CODE

    @property
    def record(self) -> Path:
        """One line for each submission, start and end of a job."""
        return self.path / "jobs.jsonl"

    @property
    def cancel(self) -> Path:
        """There if the run was cancelled; nothing starts it again."""
        return self.path / "cancel"

    @property
    def order_file(self) -> Path:
        """What to run, for the jobs themselves."""
        return self.folder / "job.json"

    @property
    def lock(self) -> Path:
        """Held by the one process that submits the run."""
        return self.folder / "lock"

    @property
    def part(self) -> Path:
        """Variables of this host's part in a launch, a secret among them; removed when it starts."""
        return self.folder / "part.json"

    def exists(self) -> bool:
        """Whether this run was submitted."""
        return is_regular(self.order_file)

    def outputs(self) -> list[Path]:
        """Return the scheduler's output of all jobs, the oldest first."""
        return by_age(path for path in _entries(self.folder) if ".o" in path.name)

    def create(self, order: Order, files: dict[str, str]) -> None:
        """Write what was submitted, and further files beside it.

        Raises:
            StorageError: if the folder cannot be written.
        """
        with explained(self.folder):
            self.folder.mkdir(OWN_FOLDER, parents=True, exist_ok=True)
            for name, text in files.items():
                write_text(self.folder / name, text)
            write_json(self.order_file, asdict(order))

    def order(self) -> Order:
        """Read what was submitted.

        Raises:
            InputError: if that is damaged.
        """
        try:
            order = Order(**json.loads(read_bytes(self.order_file)))
            if not _is_sound(order):
                raise ValueError("not what muster wrote")
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise InputError(f"{self.order_file}: cannot be read: {error}\n    submit the run again") from None
        return order

    def add(self, event: str, **values: Any) -> None:
        """Record what happened to a job."""
        with explained(self.record):
            append_json_line(self.record, {"event": event, "time": time.time(), **values})

    def submitted(self) -> list[str]:
        """Return the ids of the jobs of the last submission, in their order."""
        ids: list[str] = []
        for line in self._lines():
            if line.get("event") == SUBMITTED:
                ids = [*([] if line.get("anew") else ids), str(line["job_id"])]
        return ids

    def links(self) -> list[Link]:
        """Return every start of a job, with its end where one was recorded."""
        links: list[Link] = []
        for line in self._lines():
            if line.get("event") == STARTED:
                links.append(_link(line))
            elif line.get("event") == LINK_ENDED:
                found = (link for link in reversed(links) if link.number == line.get("link"))
                if (ended := next(found, None)) is not None:
                    ended.ended, ended.exit_code = _seconds(line, "time") or 0.0, _count(line, "exit_code")
                    ended.cpu_seconds, ended.memory = _seconds(line, "cpu_seconds"), _count(line, "memory")
        return links

    def waiting(self) -> list[str]:
        """Return the jobs that were submitted and have not started yet."""
        started = {link.job_id for link in self.links()}
        return [job for job in self.submitted() if job not in started]

    def usage(self, link: int) -> dict[str, Any]:
        """Return what the hosts of a link have used: CPU time of all, the most memory of any; empty if unknown."""
        found: list[dict[str, Any]] = []
        for path in usage_folder(self.path).glob(f"{link}-*.json"):
            with suppress(OSError, ValueError, RecursionError):
                found.append(json.loads(read_bytes(path, _LARGEST_USAGE)))
        values = [used for used in found if isinstance(used, dict)]
        seconds = [_seconds(used, "cpu_seconds") for used in values]
        memory = [_count(used, "memory") for used in values]
        if not values or None in seconds or None in memory:
            return {}
        return {"cpu_seconds": sum(filter(None, seconds)), "memory": max(filter(None, memory), default=0)}

    def last_link(self) -> Link | None:
        """Return the last start of a job of the last submission."""
        links = self.links()[self.order().links_before :]
        return links[-1] if links else None

    def is_cancelled(self) -> bool:
        """Whether the run was cancelled."""
        return is_there(self.cancel)

    def require_own(self, what: str) -> None:
        """Refuse jobs that another user could have put here: their command would run, their ids be cancelled.

        Raises:
            OwnershipError: naming the files.
        """
        paths = (self.path, self.folder, self.order_file, self.script, self.record)
        require_own([path for path in paths if is_there(path)], what, trust=False)

    def _lines(self) -> list[dict[str, Any]]:
        """Return the record; a line whose id no scheduler would give is not ours."""
        try:
            lines = read_json_lines(self.record)
        except OSError:
            return []
        return [line for line in lines if isinstance(line.get("job_id"), str) and _ID.fullmatch(line["job_id"])]


def list_jobs(directory: Path) -> list[JobFolder]:
    """Return the runs submitted on this file system, those of an array one by one, the newest first."""
    outer = [path for path in _entries(directory) if is_folder(path) and not is_there(path / ELSEWHERE)]
    inner = [path for folder in outer for path in _entries(folder) if is_folder(path)]
    newest = by_age(JobFolder(path).order_file for path in [*outer, *inner])[::-1]
    return [JobFolder(path.parent.parent) for path in newest]


def by_age(paths: Iterable[Path]) -> list[Path]:
    """Return those paths that lead to regular files, the oldest first."""
    ages: dict[Path, float] = {}
    for path in paths:
        with suppress(OSError):
            if is_regular(path):
                ages[path] = path.stat().st_mtime
    return sorted(ages, key=lambda path: ages[path])


def find_job(run: str | Path, directory: Path) -> JobFolder:
    """Find a submitted run by its name or its folder.

    Raises:
        InputError: naming the submitted runs there are.
    """
    for path in (Path(run), directory / run):
        if str(run) and JobFolder(path).exists():
            return JobFolder(path.resolve())
    names = [str(job.path.relative_to(directory)) for job in list_jobs(directory)[:8]]
    if str(run) and any(RunFolder(path).exists() for path in (Path(run), directory / run)):
        raise InputError(
            f"{run}: was not submitted as a job, so no scheduler knows of it\n    `muster show {run}` shows it"
        )
    raise InputError(
        f"no submitted run {str(run)!r} in {directory}\n    submitted there: {', '.join(names) or 'none'}"
    )


def members(job: JobFolder) -> list[JobFolder]:
    """Return the runs of an array, or the run itself."""
    if job.order().kind != "seeds":
        return [job]
    return sorted(_submitted_below(job.path), key=lambda member: _natural(member.path.name))


def _submitted_below(folder: Path) -> Iterator[JobFolder]:
    for path in _entries(folder):
        if is_folder(path) and (job := JobFolder(path)).exists():
            yield job


def _natural(name: str) -> tuple[int, str]:
    digits = name.rpartition("-")[2]
    return (int(digits) if digits.isdecimal() else 0, name)


def _link(line: dict[str, Any]) -> Link:
    return Link(
        number=_count(line, "link") or 0,
        job_id=str(line.get("job_id")),
        started=_seconds(line, "time") or 0.0,
        progress=_count(line, "progress"),
        host=str(line.get("host") or ""),
    )


def _is_sound(order: Order) -> bool:
    """Whether an order is what muster writes, by its types and its known words."""
    counts = (order.max_jobs, order.links_before, order.nodes, 0 if order.cpus is None else order.cpus)
    return (
        order.kind in _KINDS
        and order.scheduler in (*SCHEDULERS, SSH, RAY)
        and isinstance(order.cluster, str)
        and isinstance(order.command, list)
        and all(isinstance(word, str) for word in order.command)
        and all(_count({"": value}, "") is not None for value in counts)
    )


def _count(line: dict[str, Any], key: str) -> int | None:
    """Return a whole number of a record, or None if that is not one."""
    value = line.get(key)
    return value if type(value) is int and 0 <= value <= _LARGEST_COUNT else None


def _seconds(line: dict[str, Any], key: str) -> float | None:
    """Return a finite number of a record that is not negative, or None if it is anything else."""
    value = line.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= _LARGEST_COUNT else None


def _entries(folder: Path) -> Sequence[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return ()
