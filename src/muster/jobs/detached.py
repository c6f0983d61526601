"""A job on this machine: `start` it so that it outlives its terminal, `cancel` it by its id.

    python -P -m muster.jobs.detached start [--after=JOB] SCRIPT     prints the job's id
    python -P -m muster.jobs.detached adopt SCRIPT                   prints the id of the process that calls it
    python -P -m muster.jobs.detached cancel JOB

The job leads a session of its own, and its output goes to a file beside the script.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from muster.environment_variables import LOCAL_JOB_VARIABLE
from muster.jobs.processes import JobProcess

MODULE = "muster.jobs.detached"
GRACE_SECONDS = 30.0
"""Between TERM and KILL."""
KILLED_SECONDS = 10.0
POLL_SECONDS = 0.1
DEPENDENCY_SECONDS = 1.0
"""How often a job looks whether the one before it has ended."""
_AFTER = "--after="
_FAILED = {
    "start": "the job was not started",
    "hold": "the job's script was not run",
    "adopt": "the job was not recorded",
    "cancel": "the job was not cancelled",
}
_RESET = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGUSR2, signal.SIGALRM)


def start(script: str, after: str | None) -> str:
    """Start a script in the current folder; return the job's id.

    Raises:
        OSError: if its output cannot be written; then nothing runs.
        ValueError: if the job before it is none that can be waited for.
    """
    if after is not None:
        _require_here(JobProcess.parse(after))
    starting = Path(f".starting-{os.getpid()}")
    output = os.open(starting, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
    command = [sys.executable, "-P", "-m", MODULE, "hold", *([f"{_AFTER}{after}"] if after else []), script]
    try:
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True
        )
        assert child.stdin is not None
        with child.stdin as release:
            job = str(JobProcess.of(child.pid))
            os.write(output, f"muster: job {job}\n".encode())
            os.fsync(output)
            starting.rename(f"local-{job}.out")
            print(job, flush=True)
            release.write(job.encode())
    finally:
        starting.unlink(missing_ok=True)
    return job


def hold(script: str, after: str | None) -> None:
    """Be the process of a job: wait for its id and for the job before it, then become its script."""
    job = sys.stdin.read()
    if not job:
        return
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    before = JobProcess.parse(after) if after is not None else None
    while before is not None and not _has_ended(before):
        time.sleep(DEPENDENCY_SECONDS)
    become(script, job)


def become(script: str, job: str) -> NoReturn:
    """Be a job from here on: run its script in this process."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in _RESET:
        signal.signal(number, signal.SIG_DFL)
    with Path(script).open(encoding="utf-8") as lines:
        shell = shlex.split(lines.readline().removeprefix("#!"))
    os.execve(shell[0], [*shell, script], {**os.environ, LOCAL_JOB_VARIABLE: job})


def cancel(job: JobProcess) -> None:
    """End all processes of a job: ask them first, then insist. One that has ended is left alone.

    Raises:
        OSError: if some do not end.
        ValueError: if it is a job of another host.
    """
    _require_here(job)
    _signal_all(job, signal.SIGTERM)
    # One that is stopped would not see the signal.
    _signal_all(job, signal.SIGCONT)
    deadline = time.monotonic() + GRACE_SECONDS
    while job.members() and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    deadline = time.monotonic() + KILLED_SECONDS
    while left := job.members():
        if time.monotonic() > deadline:
            raise OSError(f"job {job}: these processes do not end: {', '.join(map(str, left))}")
        _signal_all(job, signal.SIGKILL)
        time.sleep(POLL_SECONDS)


def waits(arguments: Sequence[str]) -> str | None:
    """Return what a job waits for, by its process's arguments; None if it runs."""
    if MODULE not in arguments:
        return None
    after = (word.removeprefix(_AFTER) for word in arguments if word.startswith(_AFTER))
    return next((f"waits for job {job}" for job in after), "")


def _signal_all(job: JobProcess, number: signal.Signals) -> None:
    for pid in job.members():
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _has_ended(job: JobProcess) -> bool:
    """Whether a job has ended for certain."""
    try:
        return not job.members()
    except OSError:
        return False


def _require_here(job: JobProcess) -> None:
    if not job.is_here and not job.members():
        raise ValueError(f"job {job} belongs to {job.host}: do this there")


def main() -> int:
    """Do what the arguments say; return the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -P -m {MODULE}", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("start", "hold", "adopt"):
        command = commands.add_parser(name)
        command.add_argument("--after")
        command.add_argument("script")
    commands.add_parser("cancel").add_argument("job")
    given = parser.parse_args()
    try:
        if given.command == "start":
            start(given.script, given.after)
        elif given.command == "hold":
            hold(given.script, given.after)
        elif given.command == "adopt":
            print(JobProcess.of(os.getppid()))
        else:
            cancel(JobProcess.parse(given.job))
    except (OSError, ValueError) as error:
        print(f"muster: {_FAILED[given.command]}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
