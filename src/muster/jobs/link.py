"""One job of a chain, from inside: run the command, record how it went, and see to it that the next job comes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from types import FrameType

from muster.environment_variables import LINK_VARIABLE, RUN_DIR_VARIABLE
from muster.errors import InputError, JobError, StorageError
from muster.files.regular import read_bytes
from muster.jobs.chain import SAVED, Refusal, may_continue, refusal
from muster.jobs.commands import tell
from muster.jobs.folder import LINK_ENDED, STARTED, SUBMITTED, JobFolder, Order
from muster.jobs.schedulers import SCHEDULERS
from muster.jobs.schedulers.model import Scheduler
from muster.jobs.sending import send
from muster.runs.folder import saved_checkpoints
from muster.runs.status import rewrite_status

CANCEL_LOOK_SECONDS = 1.0
POLL_SECONDS = 0.2
REQUEUED_SECONDS = 60.0
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2, signal.SIGALRM)


def run_link(job: JobFolder) -> int:
    """Be one job of a chain; return the code to exit with.

    Raises:
        InputError: if what was submitted cannot be read.
    """
    job.require_own(f"link {job.path}")
    order = job.order()
    scheduler = SCHEDULERS[order.scheduler]
    if not _is_first(scheduler):
        os.execve(order.command[0], order.command, {**os.environ, RUN_DIR_VARIABLE: str(job.path)})
    return _Link(job, order, scheduler).run()


def progress_of(job: JobFolder, kind: str) -> int | None:
    """Return how far a run has come: saved iterations, or steps of all trials; None where nobody counts."""
    if kind == "train":
        return max((int(path.name) for path in saved_checkpoints(job.run.checkpoints)), default=0)
    if kind == "sweep":
        with suppress(OSError, ValueError, KeyError, TypeError):
            return sum(int(trial["steps"]) for trial in json.loads(read_bytes(job.path / "sweep.json"))["trials"])
        return 0
    return None


class _Link:
    def __init__(self, job: JobFolder, order: Order, scheduler: Scheduler) -> None:
        self._job = job
        self._order = order
        self._scheduler = scheduler
        self._id = _own_id(scheduler, job)
        self._links = job.links()[order.links_before :]
        self._number = order.links_before + len(self._links) + 1
        self._signals: list[int] = []
        for number in PASSED_ON:
            signal.signal(number, self._note)

    def run(self) -> int:
        job, order = self._job, self._order
        progress = progress_of(job, order.kind)
        if job.is_cancelled():
            refused: Refusal | None = Refusal("the run was cancelled", state="cancelled")
        else:
            refused = refusal(order, self._links, self._id, progress)
        if refused is not None:
            return self._leave(refused)
        job.add(STARTED, link=self._number, job_id=self._id, host=socket.gethostname(), progress=progress)
        if order.chain == "dependency":
            self._submit_next()
        code = self._run_command()
        self._record_end(code)
        return self._end(code)

    def _record_end(self, code: int) -> None:
        """Write down how the command ended; the chain does not depend on whether there is space for that."""
        progress = progress_of(self._job, self._order.kind)
        values = {"exit_code": code, "progress": progress, **self._job.usage(self._number)}
        try:
            self._job.add(LINK_ENDED, link=self._number, job_id=self._id, **values)
        except StorageError as error:
            print(f"muster: exit code {code}, which could not be recorded: {error}", file=sys.stderr)

    def _leave(self, refused: Refusal) -> int:
        """End at once; the jobs after this one do so too."""
        print(f"muster: {refused.reason}", file=sys.stderr)
        if refused.state is not None:
            self._set_state(refused.state, refused.reason)
        self._cancel_waiting()
        return refused.exit_code

    def _submit_next(self) -> None:
        """Submit the next job now, for one that is killed cannot; it waits until this one has ended."""
        if self._job.waiting() or len(self._links) + 1 >= self._order.max_jobs:
            return
        try:
            following = send(self._job, self._scheduler, after=self._id)
        except JobError as error:
            print(
                f"muster: the next job cannot be submitted from here, so the chain ends with this one: {error}\n"
                f"muster: `muster submit {self._job.path.name} --resume` on a login node continues it; "
                'a cluster with chain = "ahead" needs no submitting from a job',
                file=sys.stderr,
            )
            return
        self._job.add(SUBMITTED, job_id=following, after=self._id)

    def _run_command(self) -> int:
        """Run the command; pass signals on, and end it if the run is cancelled."""
        variables = {RUN_DIR_VARIABLE: str(self._job.path), LINK_VARIABLE: str(self._number)}
        variables |= _take_part(self._job)
        try:
            process = subprocess.Popen(self._order.command, env={**os.environ, **variables})
        except OSError as error:
            print(f"muster: {self._order.command[0]}: {error.strerror}", file=sys.stderr)
            return 127 if isinstance(error, FileNotFoundError) else 126
        is_told = False
        look_at = time.monotonic()
        while process.poll() is None:
            while self._signals:
                process.send_signal(self._signals.pop(0))
            if not is_told and time.monotonic() >= look_at:
                look_at = time.monotonic() + CANCEL_LOOK_SECONDS
                if self._job.is_cancelled():
                    is_told = True
                    process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(POLL_SECONDS)
        return process.returncode if process.returncode >= 0 else 128 - process.returncode

    def _end(self, code: int) -> int:
        if self._job.is_cancelled():
            self._set_state("cancelled", "by `muster cancel`; saved")
            self._cancel_waiting()
            return code
        if not may_continue(code):
            self._cancel_waiting()
            return code
        if self._order.chain == "none" or len(self._links) + 1 >= self._order.max_jobs:
            return code
        return self._requeue() if self._order.chain == "requeue" else self._scheduler.saved_code

    def _requeue(self) -> int:
        """Have this job queued again; the scheduler ends it then."""
        if self._scheduler.requeue_code is not None:
            return self._scheduler.requeue_code
        assert self._scheduler.requeue is not None
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            tell([part.format(job=self._id) for part in self._scheduler.requeue])
        except JobError as error:
            print(f"muster: this job cannot be queued again, so the chain ends with it: {error}", file=sys.stderr)
            return SAVED
        time.sleep(REQUEUED_SECONDS)
        return SAVED

    def _cancel_waiting(self) -> None:
        """Take the jobs after this one out of the queue; where that is not allowed, they end at once."""
        for waiting in self._job.waiting():
            if waiting != self._id:
                with suppress(JobError):
                    tell([part.format(job=waiting) for part in self._scheduler.cancel])

    def _set_state(self, state: str, reason: str) -> None:
        if self._order.kind == "train":
            with suppress(StorageError):
                rewrite_status(self._job.run.status, state=state, reason=reason)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._signals.append(number)


def _take_part(job: JobFolder) -> dict[str, str]:
    """Return the variables of this host's part in a launch over several, and remove the file that held them."""
    try:
        variables = json.loads(read_bytes(job.part))
        job.part.unlink()
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError(f"{job.part}: cannot be read: {error}") from None
    return {str(name): str(value) for name, value in variables.items()}


def _is_first(scheduler: Scheduler) -> bool:
    """Whether this process speaks for the job: a scheduler without job scripts starts one on every host."""
    return scheduler.prefix is not None or os.environ.get("FLUX_TASK_RANK", "0") == "0"


def _own_id(scheduler: Scheduler, job: JobFolder) -> str:
    """Return the id of this job as it was recorded; schedulers may spell it in two ways.

    Raises:
        InputError: outside of a job.
    """
    own = scheduler.own_id(os.environ)
    if not own:
        raise InputError(
            f"link {job.path}: this is no job of {scheduler.name}, for {scheduler.job_variable} is not set\n"
            f"    `muster submit {job.path.name} --resume` submits one"
        )
    spelled = {submitted.replace("ƒ", "f"): submitted for submitted in job.submitted()}
    return spelled.get(own.replace("ƒ", "f"), own)
