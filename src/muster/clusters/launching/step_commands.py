"""From an allocation to ranks: who starts them where nobody has."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

from muster.clusters.allocation.machine import is_this_machine
from muster.clusters.allocation.model import Allocation
from muster.clusters.launching.board_client import BoardClient
from muster.clusters.launching.remote_ranks import SHELLS, find_shell, run_ranks
from muster.clusters.launching.rendezvous import MeetingFolder
from muster.clusters.launching.signals import EXIT_CODES, passed_on
from muster.errors import ClusterError

# One rank a host, free to use all of the host's share, and no end of all when one host is lost.
STEP_COMMANDS = {
    "slurm": ["srun", "--nodes={nodes}", "--ntasks-per-node=1", "--cpu-bind=none", "--overlap", "--no-kill"],
    "cobalt": ["aprun", "-n", "{nodes}", "-N", "1", "-cc", "none"],
    "pbs": ["mpiexec", "-n", "{nodes}", "--ppn", "1"],
    "lsf": ["jsrun", "-n", "{nodes}", "-r", "1", "-a", "1", "-c", "ALL_CPUS"],
    "flux": ["flux", "run", "-N", "{nodes}", "--tasks-per-node=1", "--exclusive"],
}
OUTSIDER = -1
"""Stands for the rank of this process, which has none."""
PASS_SECONDS = 3.0
POLL_SECONDS = 0.1


def start_ranks(allocation: Allocation, records: Path) -> int | None:
    """Inside an allocation but outside a step, start this very command on every host; return its exit code.

    Signals that come here are passed on to the launch whose folder is in `records`.

    Returns None if this process is a rank already, or the only one there is.
    """
    scheduler, hosts = allocation.scheduler.value, allocation.hosts.value
    if allocation.in_step or (scheduler in SHELLS and len(hosts) == 1 and is_this_machine(hosts[0].name)):
        return None
    launch_id = f"{scheduler}-{secrets.token_hex(4)}"
    meeting = MeetingFolder(records / launch_id / "meeting")
    if (shell := find_shell(scheduler, os.environ)) is not None:
        return run_ranks(allocation, launch_id, shell, meeting)
    template = STEP_COMMANDS.get(scheduler)
    if template is None:
        return None
    return _run_step([part.format(nodes=len(hosts)) for part in template], launch_id, meeting)


def _run_step(step: list[str], launch_id: str, meeting: MeetingFolder) -> int:
    environment = {**os.environ, "MUSTER_LAUNCH_ID": launch_id}
    command = [*step, sys.executable, "-m", "muster", *sys.argv[1:]]
    signals: list[int] = []
    ended_by: int | None = None
    try:
        with passed_on(signals.append):
            process = subprocess.Popen(command, env=environment, start_new_session=True)
            while (code := process.poll()) is None:
                while signals:
                    number = signals.pop(0)
                    if not _tell_head(number, meeting):
                        process.send_signal(number)
                        ended_by = ended_by or number
                time.sleep(POLL_SECONDS)
    except FileNotFoundError:
        raise ClusterError(
            f"{step[0]} is not on PATH, so the ranks of this allocation cannot be started\n"
            "    start them with your site's launcher: LAUNCHER muster launch -- COMMAND"
        ) from None
    if ended_by is not None:
        return EXIT_CODES[signal.Signals(ended_by)]
    return code if code >= 0 else 128 - code


def _tell_head(number: int, meeting: MeetingFolder) -> bool:
    """Tell the head of a signal; return whether there is one yet.

    The launcher is no good messenger while a command runs: srun answers TERM by killing all ranks at once.
    """
    try:
        found = meeting.board()
    except ClusterError:
        return False
    if found is None:
        return False
    board = BoardClient(found[0], meeting.open(), OUTSIDER)
    board.put(f"signals-{time.time_ns()}", [number], PASS_SECONDS)
    board.close()
    return True
