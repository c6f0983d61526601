"""A PBS job for tests: a node file, and commands on PATH that behave as those of OpenPBS 23.06 do."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.clusters.recordings import put_on_path

TMRSH = """host=$1
shift
echo "$host $*" >>{folder}/tasks
cd "$HOME" && exec {way} env -i PATH=/bin:/usr/bin HOME="$HOME" PBS_JOBID=47.pn0 "$@" <&-"""
"""Exit codes come back; there is no input, hardly an environment, and no signal for what runs there."""


def running_job(hosts: Mapping[str, int], wall_time: str | None = None, memory: str = "2gb") -> dict[str, Any]:
    """Return how qstat describes a job that starts now, with one chunk of so many CPUs on each host."""
    return {
        "job_state": "R",
        "exec_host": "+".join(f"{host}/0*{cpus}" for host, cpus in hosts.items()),
        "exec_vnode": "+".join(f"({host}:ncpus={cpus}:mem={memory})" for host, cpus in hosts.items()),
        "stime": f"{datetime.now():%a %b %d %H:%M:%S %Y}",
        "Resource_List": {"walltime": wall_time} if wall_time else {},
    }


def make_job(
    folder: Path, lines: Sequence[str], job: Mapping[str, Any], way: Sequence[str] = (), job_id: str = "47.pn0"
) -> dict[str, str]:
    """Make a job in a folder and return its variables; `way` is a command that runs another on `$host`."""
    (folder / "nodes").write_text("".join(f"{line}\n" for line in lines))
    (folder / "answer").write_text(json.dumps({"timestamp": 1, "pbs_server": "pn0", "Jobs": {job_id: job}}))
    asked = f"echo asked >>{folder}/asked"
    put_on_path(folder, "qstat", f'{asked}\n[ "$1 $2 $3" = "-f -F json" ] && exec /bin/cat {folder}/answer')
    put_on_path(folder, "pbs_tmrsh", TMRSH.format(folder=shlex.quote(str(folder)), way=" ".join(way)))
    return {
        "PBS_JOBID": "47.pn0",
        "PBS_NODEFILE": str(folder / "nodes"),
        "PBS_EXEC": str(folder),
        "PBS_ENVIRONMENT": "PBS_BATCH",
        "NCPUS": "4",
    }
