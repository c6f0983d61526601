"""What a launch used of a host, written down for the job that it is part of."""

from __future__ import annotations

import json
import os
import resource
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from muster.clusters.allocation.cgroups import peak_memory, read_cgroup_limits
from muster.environment_variables import LINK_VARIABLE, RUN_DIR_VARIABLE


def usage_folder(run: Path) -> Path:
    """Return where the hosts of a run's jobs write what they used."""
    return run / "job" / "usage"


def record_usage(environ: Mapping[str, str]) -> None:
    """Write down the CPU time of all processes that have ended below this one, and the most memory in use.

    The memory is that of the job's control group if it has a limit, else of the largest process.
    """
    if not environ.get(RUN_DIR_VARIABLE) or not environ.get(LINK_VARIABLE, "").isdecimal():
        return
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    values = {
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "memory": peak_memory(read_cgroup_limits()) or used.ru_maxrss * 1024,
    }
    folder = usage_folder(Path(environ[RUN_DIR_VARIABLE]))
    with suppress(OSError):
        folder.mkdir(exist_ok=True)
        path = folder / f"{environ[LINK_VARIABLE]}-{socket.gethostname()}-{os.getpid()}.json"
        path.write_text(json.dumps(values) + "\n", encoding="utf-8")
