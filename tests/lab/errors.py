"""What can go wrong in the lab.

LabError                the lab cannot do what was asked
├── CommandFailedError  a command ended with a code other than 0, or not in time
└── WaitTimeoutError    something that was waited for did not come
"""

import shlex
from collections.abc import Sequence


class LabError(Exception):
    """The lab cannot do what was asked."""


class WaitTimeoutError(LabError):
    """Something that was waited for did not come within its limit."""


class CommandFailedError(LabError):
    """A command failed; the message shows where it ran, its code and all that it printed."""

    def __init__(self, where: str, command: Sequence[str], outcome: str, stdout: str, stderr: str) -> None:
        printed = f"stdout:\n{stdout.rstrip()}\nstderr:\n{stderr.rstrip()}"
        super().__init__(f"on {where}: {shlex.join(command)}\n{outcome}\n{printed}")
        self.stdout = stdout
        self.stderr = stderr
