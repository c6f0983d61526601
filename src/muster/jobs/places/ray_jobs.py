"""Jobs of a Ray: each comes with muster, what it needs, and a folder of files; short ones are asked and answer."""

from __future__ import annotations

import asyncio
import io
import json
import secrets
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import muster
from muster.errors import JobError
from muster.jobs.places import ray_agent
from muster.jobs.places.connection import UnreachableError
from muster.jobs.places.ray_client import RequestFailedError, connect
from muster.jobs.places.requirements import PACKAGE, package_files, package_folder

ANSWER_SECONDS = 60.0
SETUP_SECONDS = 900.0
"""How long Ray may take to install what a job needs."""
LOG_SECONDS = 5.0
"""How long the last lines of a job's output may take to appear after its end."""
STOP_SECONDS = 60
"""Between TERM and KILL of a job that is stopped: it saves meanwhile."""
POLL_SECONDS = 0.15
LAST_LINES = 3
"""What is shown of the output of a job that failed, or of pip's."""
PENDING, RUNNING, SUCCEEDED, STOPPED, FAILED = "PENDING", "RUNNING", "SUCCEEDED", "STOPPED", "FAILED"
_ENDED = (SUCCEEDED, STOPPED, FAILED)
_AGENT = f"exec python -m {ray_agent.__name__}"


class RayJobs:
    """The jobs of the Ray at an address."""

    def __init__(self, address: str, packages: Sequence[str] = ()) -> None:
        """Take the packages that Ray is to install for every job."""
        self.address = address
        self._packages = list(packages)

    @cached_property
    def _client(self) -> Any:
        return connect(self.address)

    def ask(self, order: Mapping[str, Any], *, seconds: float = ANSWER_SECONDS) -> dict[str, Any]:
        """Have the agent do something on the head; return its answer.

        Raises:
            UnreachableError: if there is no answer.
            JobError: with what it says instead.
        """
        with self._short_job(order) as job:
            self._wait_for_end(job, seconds)
            found = self._line(job, ray_agent.ANSWER)
            if found is None:
                raise JobError(f"{self.address}: {self.why_ended(job)}")
        answer: dict[str, Any] = json.loads(found)
        if "failure" in answer:
            raise JobError(f"{self.address}: {answer['failure']}")
        return answer

    def attend(self, order: Mapping[str, Any], write: Callable[[str], object]) -> int:
        """Have the agent run a command on the head; write what it prints, and return its exit code.

        Raises:
            UnreachableError: if the connection is lost.
            JobError: if it does not run.
        """
        with self._short_job(order) as job:
            shown = Shown(write)
            asyncio.run(self._tail(job, shown))
            deadline = time.monotonic() + LOG_SECONDS
            while shown.exit_code is None and time.monotonic() < deadline:
                shown.take_all(self._client.get_job_logs(job))
                time.sleep(POLL_SECONDS)
            if shown.exit_code is None:
                raise JobError(f"{self.address}: {self.why_ended(job)}")
            return shown.exit_code

    def start(self, job: str, entrypoint: str, archive: Path) -> None:
        """Start a job, whose files come in an archive.

        Raises:
            JobError: if the job server does not take it.
        """
        with tempfile.TemporaryDirectory() as scratch:
            runtime_env: dict[str, Any] = {
                "working_dir": str(archive),
                "py_modules": _own_modules(Path(scratch)),
                "env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": str(STOP_SECONDS)},
            }
            if self._packages:
                runtime_env["pip"] = self._packages
            self._client.submit_job(submission_id=job, entrypoint=entrypoint, runtime_env=runtime_env)

    def info(self, job: str) -> Any:
        """Return Ray's `JobDetails` of a job; None if it knows no such job."""
        try:
            return self._client.get_job_info(job)
        except RequestFailedError as error:
            if error.status == 404:
                return None
            raise

    def log(self, job: str) -> str:
        """Return what a job has printed, without Ray's own lines; nothing if it has not begun."""
        try:
            lines = str(self._client.get_job_logs(job)).splitlines(keepends=True)
        except RequestFailedError:
            return ""
        return "".join(line for line in lines if f"Running entrypoint for job {job}" not in line)

    def stop(self, job: str) -> None:
        """Have a job ended; one that has ended is left alone."""
        with suppress(RequestFailedError):
            self._client.stop_job(job)

    def why_ended(self, job: str) -> str:
        """Say in a few lines why a job did not do what it was for."""
        info = self.info(job)
        if info is None:
            return "the job is gone"
        said = self.log(job) or str(info.message or info.status.value)
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        return "\n    ".join(line.removeprefix("error: ") for line in lines[-LAST_LINES:])

    @contextmanager
    def _short_job(self, order: Mapping[str, Any]) -> Iterator[str]:
        """Have a job for a while; nothing of it is left in Ray's list of jobs."""
        job = new_id("command")
        with tempfile.TemporaryDirectory() as scratch:
            archive = Path(scratch) / "order.tar.gz"
            write_archive(archive, {ray_agent.ORDER: json.dumps(order)})
            self.start(job, _AGENT, archive)
        try:
            yield job
        finally:
            with suppress(JobError):
                if self._status(job) not in _ENDED:
                    self._client.stop_job(job)
                    self._wait_for_end(job, LOG_SECONDS)
                self._client.delete_job(job)

    def _status(self, job: str) -> str:
        info = self.info(job)
        return str(info.status.value) if info is not None else FAILED

    def _wait_for_end(self, job: str, seconds: float) -> None:
        """Wait until a job has ended; the time that Ray takes to set it up does not count."""
        pending_until, deadline = time.monotonic() + SETUP_SECONDS, None
        while (status := self._status(job)) not in _ENDED:
            now = time.monotonic()
            if status == RUNNING and deadline is None:
                deadline = now + seconds
            if now > (deadline or pending_until):
                raise UnreachableError(f"{self.address}: no answer within {seconds:g} s")
            time.sleep(POLL_SECONDS)

    def _line(self, job: str, mark: str) -> str | None:
        """Return what follows a mark in a job's output; it may appear a moment after the job's end."""
        deadline = time.monotonic() + LOG_SECONDS
        while True:
            if (found := marked(self.log(job), mark)) is not None:
                return found
            if time.monotonic() > deadline or self._status(job) == FAILED:
                return None
            time.sleep(POLL_SECONDS)

    async def _tail(self, job: str, shown: Shown) -> None:
        """Show a job's output until it has ended; a connection that closes before is for the caller to see."""
        import aiohttp

        try:
            async for part in self._client.tail_job_logs(job):
                shown.take(part)
                if shown.exit_code is not None:
                    return
        except (RuntimeError, aiohttp.ClientError) as error:
            if self._status(job) not in _ENDED:
                raise UnreachableError(f"{self.address}: the connection was lost: {error}") from None


class Shown:
    """What a command prints there, between the agent's marks, line by line."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self.exit_code: int | None = None
        self._write = write
        self._rest = ""
        self._has_begun = False
        self._taken = 0

    def take(self, part: str) -> None:
        """Take what comes next."""
        *lines, self._rest = (self._rest + part).split("\n")
        for line in lines:
            self._taken += 1
            if self.exit_code is not None:
                return
            if not self._has_begun:
                self._has_begun = line == ray_agent.BEGIN
            elif line.startswith(ray_agent.END):
                self.exit_code = int(line.removeprefix(ray_agent.END))
            else:
                self._write(f"{line}\n")

    def take_all(self, whole: str) -> None:
        """Take the whole output again, of which the first lines were taken already."""
        lines = whole.split("\n")[self._taken :]
        self._rest = ""
        self.take("\n".join(lines))


def new_id(name: str) -> str:
    """Return an id that no job has had."""
    return f"muster-{name}-{secrets.token_hex(6)}"


def marked(log: str, mark: str) -> str | None:
    """Return what follows a mark at the beginning of a line; None if there is no such line, or not all of it."""
    found = [line for line in log.splitlines(keepends=True) if line.startswith(mark) and line.endswith("\n")]
    return found[-1].removeprefix(mark).strip() if found else None


def write_archive(
    archive: Path, texts: Mapping[str, str], folder: tuple[str, Path, Sequence[Path]] | None = None
) -> None:
    """Write the files of a job: some texts, and the named files of a folder below another name."""
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        for name, text in texts.items():
            content = text.encode("utf-8")
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o600
            tar.addfile(member, io.BytesIO(content))
        if folder is not None:
            name, root, files = folder
            for path in files:
                if (root / path).is_file() or (root / path).is_symlink():
                    tar.add((root / path).resolve() if (root / path).is_file() else root / path, f"{name}/{path}")


def _own_modules(scratch: Path) -> list[str]:
    """Return folders with muster's own files and its package's description, and with nothing else of here."""
    copied = scratch / "muster"
    for path in package_files():
        target = copied / path.relative_to(package_folder())
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    described = scratch / f"{PACKAGE.replace('-', '_')}-{muster.__version__}.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(distribution(PACKAGE).read_text("METADATA") or "", encoding="utf-8")
    return [str(copied), str(described)]
