"""A host that muster reaches by ssh, as it is before muster is there."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from muster.errors import JobError
from muster.jobs.places import host_agent
from muster.jobs.places.connection import ANSWER_SECONDS, Connection
from muster.jobs.places.requirements import MINOR

ENVIRONMENT_SECONDS = 3600.0
_START = "import json, sys; order = json.loads(sys.stdin.buffer.readline()); exec(order.pop('program'))"


class HostError(JobError):
    """A host is not fit for a run; the message begins with its name."""


class Host:
    """A host, by the name that ssh knows it by."""

    def __init__(self, connection: Connection, folder: str) -> None:
        """Take the way to it, and the folder there that is muster's."""
        self.name = connection.host
        self.connection = connection
        self.folder = folder

    def ask(self, do: str, order: dict[str, Any], *, seconds: float = ANSWER_SECONDS) -> dict[str, Any]:
        """Have the agent do something there; return its answer.

        Raises:
            HostError: with what it says, or if there is no Python to run it.
        """
        program = Path(host_agent.__file__).read_text(encoding="utf-8") + "\nmain(order)\n"
        order = {**order, "do": do, "folder": self.folder, "program": program}
        line = f'exec "$(command -v python{MINOR} || command -v python3)" -c {shlex.quote(_START)}'
        done = self.connection.run(line, json.dumps(order).encode() + b"\n", seconds=seconds)
        lines = done.stdout.decode(errors="replace").splitlines()
        answers = [line for line in lines if line.startswith(host_agent.ANSWER)]
        if not answers:
            said = done.stderr.decode(errors="replace").strip().splitlines() or [f"code {done.returncode}"]
            raise HostError(f"{self.name}: {said[-1]}")
        answer: dict[str, Any] = json.loads(answers[-1].removeprefix(host_agent.ANSWER))
        if "failure" in answer:
            raise HostError(f"{self.name}: {answer['failure']}")
        return answer
