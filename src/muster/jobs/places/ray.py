"""A run on a Ray that exists: its folder is on the disk of the head, and Ray's job server is the way to it."""

from __future__ import annotations

import base64
import json
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from muster.errors import JobError
from muster.jobs.commands import UnansweredError
from muster.jobs.places import ray_agent
from muster.jobs.places.connection import UnreachableError
from muster.jobs.places.ray_jobs import FAILED, PENDING, POLL_SECONDS, RUNNING, STOPPED, RayJobs, marked
from muster.jobs.places.record import Elsewhere, RunElsewhere, last_line
from muster.jobs.places.unpacking import unpack
from muster.runs.folder import ELSEWHERE

CANCEL_SECONDS = 180.0
FETCH_SECONDS = 600.0
END_SECONDS = 15.0
"""How long a job may take to end after its run has."""
SETUP_SECONDS = 30.0
"""How long a job may take to end that Ray is setting up: pip is not interrupted."""
PART_BYTES = 24 * 1024**2
"""What is fetched at once; as text it is a third longer."""
SETTING_UP = "Ray is setting up its environment"


class RayPlace:
    """The Ray of a run."""

    def __init__(self, record: Elsewhere) -> None:
        self._record = record

    @cached_property
    def _jobs(self) -> RayJobs:
        return RayJobs(self._record.host, self._record.packages)

    def run(self, arguments: Sequence[str], *, may_ask: bool = False) -> str:
        """Run a command of muster's on the head, as a short job; see `Place`."""
        try:
            return self._run(arguments)
        except UnreachableError as error:
            raise UnansweredError(str(error).partition("\n")[0]) from None

    def attend(self, arguments: Sequence[str], *, host: str | None = None) -> int:
        """Run a command of muster's and show what it prints; there is no terminal. See `Place`."""

        def write(text: str) -> None:
            sys.stdout.write(text)
            sys.stdout.flush()

        # However this process is ended, the command there is too.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)
        try:
            return self._jobs.attend({"do": "attend", "arguments": list(arguments)}, write)
        except KeyboardInterrupt:
            return 130

    def cancel(self, run: RunElsewhere, notice: Callable[[str], None]) -> bool:
        """Cancel as on the head itself; a job that has not begun, or does not end, is stopped."""
        job = self._known_job()
        if self.early_state(run) is not None:
            is_left = self._status() == PENDING
            if is_left:
                self._jobs.stop(job)
                if not self._wait_while(PENDING, SETUP_SECONDS):
                    notice(f"{SETTING_UP}, and ends the job then")
            return is_left
        answer = self._run(["cancel", run.folder, "--json"], seconds=CANCEL_SECONDS)
        self._wait_while(RUNNING, END_SECONDS)
        self._jobs.stop(job)
        return any(json.loads(last_line(answer)).values())

    def fetch(self, run: RunElsewhere, target: Path, *, only: str | None = None) -> None:
        """Have what is new packed on the head, bring it in parts, and unpack it here; see `Place`."""
        self._known_job()
        order = {"do": "pack", "folder": run.folder, "here": _marks(target), "only": only, "length": PART_BYTES}
        with TemporaryDirectory() as scratch:
            archive = Path(scratch) / "run.tar"
            with archive.open("wb") as file:
                answer = self._jobs.ask(order, seconds=FETCH_SECONDS)
                file.write(base64.b64decode(answer["data"]))
                while file.tell() < answer["size"]:
                    order = {"do": "part", "file": answer["file"], "offset": file.tell(), "length": PART_BYTES}
                    part = base64.b64decode(self._jobs.ask(order, seconds=FETCH_SECONDS)["data"])
                    if not part:
                        raise JobError(f"{self._record.host}: sent less than it had packed\n    fetch again")
                    file.write(part)
            unpack(archive, target, self._record.host)

    def early_state(self, run: RunElsewhere) -> tuple[str, str] | None:
        """Return state and reason of a run whose job has not begun, or failed before the run did; else None."""
        job = run.record.job_id
        info = self._jobs.info(job)
        if info is None:
            return None
        status = str(info.status.value)
        if status == PENDING:
            return "queued", SETTING_UP
        if status == STOPPED and info.driver_node_id is None:
            return "cancelled", "before it began"
        if status == FAILED and marked(self._jobs.log(job), ray_agent.ANSWER) is None:
            return "failed", f"it did not begin: {self._jobs.why_ended(job)}"
        return None

    def _run(self, arguments: Sequence[str], *, seconds: float = 60.0) -> str:
        answer = self._jobs.ask({"do": "run", "arguments": list(arguments)}, seconds=seconds)
        if answer["code"]:
            said = str(answer["stderr"]).strip().removeprefix("error: ") or f"exit code {answer['code']}"
            raise JobError(f"{self._record.host}: {said}")
        return str(answer["stdout"])

    def _known_job(self) -> str:
        """Return the job of the run; refuse a Ray that does not know it, for it may be another one."""
        job = self._record.job_id
        if self._jobs.info(job) is None:
            raise JobError(
                f"{self._record.host}: knows no job {job}\n"
                "    is another Ray at that address now, by another tunnel, or was it started again?"
            )
        return job

    def _status(self) -> str:
        info = self._jobs.info(self._record.job_id)
        return "" if info is None else str(info.status.value)

    def _wait_while(self, status: str, seconds: float) -> bool:
        """Wait for the end of a status; return whether it has ended in time."""
        deadline = time.monotonic() + seconds
        while (is_left := self._status() == status) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return not is_left


def _marks(folder: Path) -> dict[str, list[int]]:
    """Return what is here already."""
    found = {}
    for path in folder.rglob("*"):
        with suppress(OSError):
            if path.is_file() and not path.is_symlink() and path.name != ELSEWHERE:
                found[str(path.relative_to(folder))] = ray_agent.mark(path.stat())
    return found
