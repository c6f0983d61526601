"""Running muster as a user would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def muster(*arguments: str) -> dict[str, Any]:
    """Run a command of muster's with `--json`; return what it printed last.

    Raises:
        RuntimeError: if it fails.
    """
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, "-m", "muster", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    if done.returncode:
        raise RuntimeError(
            f"muster {' '.join(arguments)} ended with code {done.returncode}:\n{done.stderr[-3000:]}"
        )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result
