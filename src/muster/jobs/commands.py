"""A scheduler's own commands: run with a limit of time, and explained when they fail."""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from muster.environment_variables import PREFIX
from muster.errors import JobError

ANSWER_SECONDS = 15.0
SUBMIT_SECONDS = 60.0
_LONGEST_OUTPUT = 2000
_LEFT_OUT = ("SLURM_", "PMI_", PREFIX, "RAY_", "SQUEUE_", "SINFO_")
"""Variables of the job that this process is in, and those by which an answer would leave jobs out."""


class UnansweredError(Exception):
    """A scheduler did not answer, or what it answered is not understood: nothing may be done because of it."""

    def __init__(self, reason: str, code: int | None = None) -> None:
        super().__init__(reason)
        self.code = code
        """What the command exited with, if it was that."""


def ask(*command: str, accepted: Sequence[int] = (0,)) -> str:
    """Return what a question's answer is.

    Raises:
        UnansweredError: if there is none in time, or the command fails.
    """
    try:
        done = _run(command, ANSWER_SECONDS)
    except FileNotFoundError:
        raise UnansweredError(f"{command[0]} is not on PATH") from None
    except subprocess.TimeoutExpired:
        raise UnansweredError(f"{command[0]} did not answer within {ANSWER_SECONDS:g} s") from None
    except OSError as error:
        raise UnansweredError(f"{command[0]}: {error.strerror or error}") from None
    if done.returncode not in accepted:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise UnansweredError(
            f"{command[0]} failed with code {done.returncode}: {said[0] if said else 'no output'}", done.returncode
        )
    return done.stdout


def tell(command: Sequence[str], *, folder: Path | None = None, stdin: Path | None = None) -> str:
    """Have something done; return what is printed.

    Raises:
        JobError: with command, exit code and output, if it fails.
    """
    shown = shlex.join(command) + (f" < {shlex.quote(str(stdin))}" if stdin else "")
    try:
        done = _run(command, SUBMIT_SECONDS, folder, stdin)
    except FileNotFoundError:
        raise JobError(
            f"{command[0]} is not on PATH, so this host cannot reach the scheduler\n"
            "    run this on a login node of the cluster; --dry-run needs no scheduler"
        ) from None
    except subprocess.TimeoutExpired:
        raise JobError(
            f"{shown}: did not end within {SUBMIT_SECONDS:g} s; it may still have had its effect\n"
            "    look at the scheduler's own queue before you try again"
        ) from None
    if done.returncode:
        output = "\n".join(part.strip() for part in (done.stdout, done.stderr) if part.strip())
        lines = output[-_LONGEST_OUTPUT:].splitlines() or ["(no output)"]
        raise JobError(
            f"{shown}: failed with code {done.returncode}\n" + "\n".join(f"    {line}" for line in lines)
        )
    return done.stdout


def is_here(program: str) -> bool:
    """Whether a command is on PATH."""
    return shutil.which(program) is not None


def user_name() -> str:
    """Return the name of this process's user, whatever LOGNAME says: a job must not seem to be gone."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _run(
    command: Sequence[str], seconds: float, folder: Path | None = None, stdin: Path | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_LEFT_OUT)}
    environment |= {"SLURM_TIME_FORMAT": "standard", "LC_ALL": "C.UTF-8"}
    if "SLURM_CONF" in os.environ:
        environment["SLURM_CONF"] = os.environ["SLURM_CONF"]
    with (stdin or Path(os.devnull)).open("rb") as source:
        return subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=source,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
            # A Ctrl-C must not end it between the scheduler's deed and its answer.
            start_new_session=True,
        )
