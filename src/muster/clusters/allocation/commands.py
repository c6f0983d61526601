"""Questions to a scheduler's own commands, where it has them: short, and never waited for long."""

from __future__ import annotations

import shutil
import subprocess

from muster.clusters.allocation.variables import Environment

SECONDS_TO_ANSWER = 5.0


def ask(environ: Environment, program: str, *arguments: str) -> str | None:
    """Return what the command prints; None if it is not there, fails or is too slow."""
    path = shutil.which(program, path=environ.get("PATH", ""))
    if path is None:
        return None
    try:
        answer = subprocess.run(
            [path, *arguments],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS_TO_ANSWER,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
