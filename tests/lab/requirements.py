"""What a machine must offer for the lab, and why a lab test is skipped where it does not."""

import os
import shutil
import subprocess
from collections.abc import Sequence

from .layout import SYSTEM_PATH
from .namespaces import HOST

PROGRAMS = ("unshare", "nsenter", "mount", "ip", "tc")
REMEDY = "install it with tests/lab/install.sh"


def why_no_lab() -> str | None:
    """The reason why no hosts can be made here, or None."""
    if os.geteuid() != 0:
        return "the lab makes hosts out of namespaces, which needs root"
    missing = why_missing(PROGRAMS)
    if missing:
        return missing
    command = [
        "unshare",
        "--fork",
        *(f"--{namespace}" for namespace in HOST),
        "mount",
        "-t",
        "tmpfs",
        "x",
        "/mnt",
    ]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"namespaces cannot be made here: {tried.stderr.strip()}" if tried.returncode else None


def why_missing(programs: Sequence[str]) -> str | None:
    """The reason why a service cannot run: the programs that are not installed, or None."""
    missing = [program for program in programs if shutil.which(program, path=SYSTEM_PATH) is None]
    return f"not installed: {', '.join(missing)}; {REMEDY}" if missing else None
