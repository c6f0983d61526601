"""From an allocation to ranks: what names the launch, and who starts its ranks where nobody has."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys

from muster.clusters.allocation.model import Allocation
from muster.clusters.allocation.pmi import ask_launch_name
from muster.errors import ClusterError

# One rank a host, free to use all of the host's share, and no end of all when one host is lost.
STEP_COMMANDS = {
    "slurm": ["srun", "--nodes={nodes}", "--ntasks-per-node=1", "--cpu-bind=none", "--overlap", "--no-kill"],
    "cobalt": ["aprun", "-n", "{nodes}", "-N", "1", "-cc", "none"],
    "pbs": ["mpiexec", "-n", "{nodes}", "--ppn", "1"],
    "lsf": ["jsrun", "-n", "{nodes}", "-r", "1", "-a", "1", "-c", "ALL_CPUS"],
    "flux": ["flux", "run", "-N", "{nodes}", "--tasks-per-node=1", "--exclusive"],
}


def identify(allocation: Allocation) -> str:
    """Return what names this launch on all its ranks.

    Raises:
        ClusterError: if nothing does.
    """
    if allocation.launch_id is not None:
        return allocation.launch_id.value
    if (asked := ask_launch_name(os.environ)) is not None:
        return f"pmi-{asked.value}"
    raise ClusterError(
        "nothing tells this launch from others, so its ranks cannot meet\n"
        "    set MUSTER_LAUNCH_ID to the same new value on all ranks, for example: "
        "MUSTER_LAUNCH_ID=$(date +%s) mpirun -x MUSTER_LAUNCH_ID ..."
    )


def start_ranks(allocation: Allocation) -> int | None:
    """Inside an allocation but outside a step, start this very command on every host; return its exit code.

    Returns None if this process is a rank already, or the only one there is.
    """
    template = STEP_COMMANDS.get(allocation.scheduler.value)
    if allocation.in_step or template is None:
        return None
    launch_id = f"{allocation.scheduler.value}-{secrets.token_hex(4)}"
    step = [part.format(nodes=len(allocation.hosts.value)) for part in template]
    environment = {**os.environ, "MUSTER_LAUNCH_ID": launch_id}
    try:
        done = subprocess.run([*step, sys.executable, "-m", "muster", *sys.argv[1:]], env=environment, check=False)
    except FileNotFoundError:
        raise ClusterError(
            f"{step[0]} is not on PATH, so the ranks of this allocation cannot be started\n"
            "    start them with your site's launcher: LAUNCHER muster launch -- COMMAND"
        ) from None
    return done.returncode
