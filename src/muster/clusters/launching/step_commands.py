"""From an allocation to ranks: who starts them where nobody has."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys

from muster.clusters.allocation.machine import is_this_machine
from muster.clusters.allocation.model import Allocation
from muster.clusters.launching.remote_ranks import REMOTE_SHELLS, run_ranks
from muster.clusters.launching.signals import passed_on
from muster.errors import ClusterError

# One rank a host, free to use all of the host's share, and no end of all when one host is lost.
STEP_COMMANDS = {
    "slurm": ["srun", "--nodes={nodes}", "--ntasks-per-node=1", "--cpu-bind=none", "--overlap", "--no-kill"],
    "cobalt": ["aprun", "-n", "{nodes}", "-N", "1", "-cc", "none"],
    "pbs": ["mpiexec", "-n", "{nodes}", "--ppn", "1"],
    "lsf": ["jsrun", "-n", "{nodes}", "-r", "1", "-a", "1", "-c", "ALL_CPUS"],
    "flux": ["flux", "run", "-N", "{nodes}", "--tasks-per-node=1", "--exclusive"],
}


TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGHUP)


def start_ranks(allocation: Allocation) -> int | None:
    """Inside an allocation but outside a step, start this very command on every host; return its exit code.

    Returns None if this process is a rank already, or the only one there is.
    """
    scheduler, hosts = allocation.scheduler.value, allocation.hosts.value
    if allocation.in_step:
        return None
    launch_id = f"{scheduler}-{secrets.token_hex(4)}"
    if scheduler in REMOTE_SHELLS:
        alone = len(hosts) == 1 and is_this_machine(hosts[0].name)
        return None if alone else run_ranks(allocation, launch_id)
    template = STEP_COMMANDS.get(scheduler)
    return _run_step([part.format(nodes=len(hosts)) for part in template], launch_id) if template else None


def _run_step(step: list[str], launch_id: str) -> int:
    environment = {**os.environ, "MUSTER_LAUNCH_ID": launch_id}
    command = [*step, sys.executable, "-m", "muster", *sys.argv[1:]]
    processes: list[subprocess.Popen[bytes]] = []

    def forward(number: int) -> None:
        """Pass a signal on to the launcher, unless a terminal has sent it to both."""
        if not (number in TERMINAL_SIGNALS and sys.stdin.isatty()):
            for process in processes:
                process.send_signal(number)

    try:
        with passed_on(forward):
            processes.append(subprocess.Popen(command, env=environment))
            code = processes[0].wait()
            return code if code >= 0 else 128 - code
    except FileNotFoundError:
        raise ClusterError(
            f"{step[0]} is not on PATH, so the ranks of this allocation cannot be started\n"
            "    start them with your site's launcher: LAUNCHER muster launch -- COMMAND"
        ) from None
