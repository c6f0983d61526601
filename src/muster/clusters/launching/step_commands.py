"""From an allocation to ranks: who starts them where nobody has."""

from __future__ import annotations

import os
import secrets
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from muster.clusters.allocation.machine import is_this_machine
from muster.clusters.allocation.model import Allocation
from muster.clusters.launching.board_client import BoardClient
from muster.clusters.launching.board_topics import Topic
from muster.clusters.launching.containers import Container
from muster.clusters.launching.remote_ranks import SHELLS, find_shell, run_ranks
from muster.clusters.launching.rendezvous import MeetingFolder
from muster.clusters.launching.signals import EXIT_CODES, passed_on
from muster.environment_variables import (
    END_TIME_VARIABLE,
    IN_CONTAINER_VARIABLE,
    LAUNCH_ID_VARIABLE,
    LAUNCH_TOKEN_VARIABLE,
    NUM_RANKS_VARIABLE,
    PREFIX,
    RANK_VARIABLE,
    STEP_VARIABLE,
)
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


@dataclass(frozen=True)
class Step:
    """How ranks are started where nobody has."""

    records: Path
    """Folder of the launches, in which the ranks meet."""
    launcher: str | None = None
    """The command that starts them, `{nodes}` in it being the number of hosts; default: the scheduler's own."""
    container: Container | None = None


def start_ranks(allocation: Allocation, step: Step) -> int | None:
    """Inside an allocation but outside a step, start this very command on every host; return its exit code.

    Signals that come here are passed on to the head.

    Returns None if this process is a rank already, or the only one there is.

    Raises:
        ClusterError: if the launcher is not here, or has started this process without telling it its rank.
    """
    scheduler, hosts = allocation.scheduler.value, allocation.hosts.value
    if allocation.in_step or _is_alone(allocation, step):
        return None
    if STEP_VARIABLE in os.environ:
        raise ClusterError(
            "the launcher does not tell the ranks that it has started who they are\n"
            "    take one that sets the variables of MPI, PMI or Slurm, or "
            f"{RANK_VARIABLE} and {NUM_RANKS_VARIABLE}"
        )
    launch_id = f"{scheduler}-{secrets.token_hex(4)}"
    meeting = MeetingFolder(step.records / launch_id / "meeting")
    if step.launcher is None and (shell := find_shell(scheduler, os.environ)) is not None:
        return run_ranks(allocation, launch_id, shell, meeting)
    template = shlex.split(step.launcher) if step.launcher else STEP_COMMANDS.get(scheduler)
    if template is None:
        return None
    launcher = [part.replace("{nodes}", str(len(hosts))) for part in template]
    return _run_step([*launcher, *_program(allocation, step, launch_id)], meeting)


def _is_alone(allocation: Allocation, step: Step) -> bool:
    """Whether there is one host, this one, and nothing to start on it."""
    hosts = allocation.hosts.value
    if len(hosts) != 1:
        return False
    is_plain = allocation.scheduler.value in SHELLS and step.launcher is None
    return STEP_VARIABLE in os.environ or (is_plain and is_this_machine(hosts[0].name))


def _program(allocation: Allocation, step: Step, launch_id: str) -> list[str]:
    """Return what a launcher starts: this command, with the variables that a launcher may not pass on.

    The secret of the ranks is not among them, for all users of a host see its command lines.
    """
    variables = {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}
    variables.pop(LAUNCH_TOKEN_VARIABLE, None)
    variables |= {LAUNCH_ID_VARIABLE: launch_id, STEP_VARIABLE: "1"}
    if allocation.end_time is not None:
        variables[END_TIME_VARIABLE] = str(allocation.end_time.value)
    if step.container is None:
        command = [sys.executable, "-m", "muster", *sys.argv[1:]]
    else:
        variables[IN_CONTAINER_VARIABLE] = "1"
        command = step.container.line(sys.argv[1:], _folders_inside(allocation, step.records))
    return ["env", *(f"{name}={value}" for name, value in variables.items()), *command]


def enter_container(allocation: Allocation, step: Step) -> None:
    """Continue inside the container, if there is one and this is not inside already.

    Raises:
        ClusterError: if its runtime is not here.
    """
    if step.container is None:
        return
    if allocation.end_time is not None:
        os.environ[END_TIME_VARIABLE] = str(allocation.end_time.value)
    step.container.enter(sys.argv[1:], _folders_inside(allocation, step.records))


def _folders_inside(allocation: Allocation, records: Path) -> list[Path]:
    """Return the folders that ranks in a container need beside the current one; that of the launches is made."""
    records.mkdir(parents=True, exist_ok=True)
    return [records.parent, Path(allocation.scratch.value)]


def _run_step(command: list[str], meeting: MeetingFolder) -> int:
    signals: list[int] = []
    ended_by: int | None = None
    try:
        with passed_on(signals.append):
            process = subprocess.Popen(command, start_new_session=True)
            while (code := process.poll()) is None:
                while signals:
                    number = signals.pop(0)
                    if not _tell_head(number, meeting):
                        process.send_signal(number)
                        ended_by = ended_by or number
                time.sleep(POLL_SECONDS)
    except FileNotFoundError:
        raise ClusterError(
            f"{command[0]} is not on PATH, so the ranks of this allocation cannot be started\n"
            "    start them with your site's launcher: LAUNCHER muster launch -- COMMAND, or name it by --launcher"
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
    board.put(Topic.SIGNALS, [number], number=time.time_ns(), seconds=PASS_SECONDS)
    board.close()
    return True
