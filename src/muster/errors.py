"""The whole error tree: every failure that muster explains to a person, each with its exit code.

    MusterError                    1   failed; the message says why
    ├── InputError                 2   bad input: file, flag or name
    │   ├── ExperimentError            problems of an experiment, all at once
    │   ├── CheckpointError            a checkpoint that is damaged or does not fit
    │   └── OwnershipError             files that another user can change, and that would run code
    ├── SimulatorError             3   the simulator failed too often
    ├── ClusterError               4   Ray did not come up
    │   ├── AllocationError            what a scheduler or launcher says of the job cannot be read
    │   └── KeeperLostError            the process that holds a host's Ray was killed
    ├── JobError                   1   a scheduler's command failed
    ├── TrackerError               1   an experiment tracker refused, or cannot be reached
    ├── InterruptedRunError        a signal's   it came before training began
    ├── RayLostError               1   Ray ended while it was in use
    ├── RunLockedError             1   another process writes this run
    ├── StorageError               1   a file of the run could not be written
    └── NonFiniteUpdateError       1   learning gave infinities or NaN; nothing was applied

An unexpected exception is a defect of muster's and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

ERROR_PREFIX = "error: "
"""What the command line prints before the message of an error."""


class MusterError(Exception):
    """A failure with a message that says what happened, where, and what to do next.

    `result` is what came of the run that it ended, if it ended one; `traceback` the simulator's own, with which
    the message then ends.
    """

    exit_code = 1
    result: Any = None
    traceback: str = ""


class InputError(MusterError):
    """The user gave a file, flag or name that cannot be used."""

    exit_code = 2


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: its place, what is wrong with it, and what to do."""

    place: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" + (f"\n    {self.hint}" if self.hint else "")


class ExperimentError(InputError):
    """All problems that were found in one experiment."""

    def __init__(self, subject: str, problems: Sequence[Problem]) -> None:
        self.subject = subject
        self.problems = tuple(problems)
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = "\n".join(f"  {problem}" for problem in problems)
        super().__init__(f"{subject}: {count}\n{lines}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.subject, self.problems)


class CheckpointError(InputError):
    """A checkpoint is damaged, incomplete, or of another experiment."""


class OwnershipError(InputError):
    """Files that would run code belong to another user, or can be changed by others."""


class SimulatorError(MusterError):
    """The user's simulator failed too often, or where it must not fail at all."""

    exit_code = 3


class ClusterError(MusterError):
    """Ray did not come up, or has less than was asked for."""

    exit_code = 4


class AllocationError(ClusterError):
    """What a scheduler or launcher says of the job cannot be read, or does not fit together."""


class JobError(MusterError):
    """A scheduler refused or failed to do what was asked."""


class TrackerError(MusterError):
    """An experiment tracker refused what it was sent, or cannot be reached; sending again continues."""


class InterruptedRunError(MusterError):
    """A signal ended the run before it had begun to train."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class RayLostError(MusterError):
    """Ray ended while it was in use; what was learned before is kept."""


class KeeperLostError(ClusterError):
    """The process that holds a host's Ray was killed; what it had started is ended by the launcher."""


class RunLockedError(MusterError):
    """Another process is writing to the run folder."""


class StorageError(MusterError):
    """A file could not be written; what was saved before is intact."""


class NonFiniteUpdateError(MusterError):
    """An update of the learner was not finite and has not been applied."""
