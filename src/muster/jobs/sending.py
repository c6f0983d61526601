"""Sending a job script to the scheduler, and finding the job's id in the answer."""

from __future__ import annotations

import json
import re

from muster.errors import JobError
from muster.files.regular import read_bytes
from muster.jobs.commands import tell
from muster.jobs.folder import JobFolder
from muster.jobs.schedulers.model import Scheduler

ARGUMENTS = "arguments.json"
"""Directives of a scheduler that takes them as arguments of its submitting command."""


def submit_command(scheduler: Scheduler, arguments: list[str], after: str | None, script: str) -> list[str]:
    """Return the command that submits a script, perhaps after another job."""
    dependency = [part.format(job=after) for part in scheduler.dependency] if after else []
    return [*scheduler.submit, *arguments, *dependency, *_script(scheduler, script)]


def _script(scheduler: Scheduler, script: str) -> list[str]:
    """Name a script to the scheduler: one that runs it as a command wants a path, another reads it."""
    if scheduler.script_on_stdin:
        return []
    return [f"./{script}" if scheduler.prefix is None else script]


def send(job: JobFolder, scheduler: Scheduler, *, after: str | None = None) -> str:
    """Submit the script of a run; return the job's id.

    The command runs in the folder of the script, where the scheduler then writes the output.

    Raises:
        JobError: with command, code and output, if the scheduler refuses it.
    """
    path = job.folder / ARGUMENTS
    arguments = json.loads(read_bytes(path)) if path.is_file() else []
    command = submit_command(scheduler, arguments, after, job.script.name)
    answer = tell(command, folder=job.folder, stdin=job.script if scheduler.script_on_stdin else None)
    found = re.search(scheduler.job_id, answer.strip(), re.MULTILINE)
    if found is None:
        raise JobError(
            f"{command[0]} answered what is not understood: {answer.strip()[:200]!r}\n"
            "    the job may have been submitted: look at the scheduler's own queue"
        )
    return found[1]
