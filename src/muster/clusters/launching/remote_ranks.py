"""Ranks that this process starts itself, one a host, by a remote shell: ssh, qrsh or pbs_tmrsh."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from muster.clusters.allocation.machine import is_this_machine
from muster.clusters.allocation.model import Allocation, Host
from muster.clusters.allocation.pbs_server import find_program
from muster.clusters.allocation.variables import Environment
from muster.clusters.launching import remote_stub
from muster.clusters.launching.rendezvous import MeetingFolder
from muster.clusters.launching.signals import passed_on
from muster.environment_variables import (
    LAUNCH_ID_VARIABLE,
    LAUNCH_TOKEN_VARIABLE,
    NUM_RANKS_VARIABLE,
    ORDERS_ON_STDIN_VARIABLE,
    PREFIX,
    RANK_VARIABLE,
)
from muster.errors import ClusterError

POLL_SECONDS = 0.05
LAST_SECONDS = 15.0
"""How long the other ranks may take to leave when the first one has."""
_TAKEN_ALONG = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV")


@dataclass(frozen=True)
class RemoteShell:
    """A program that runs another one on a host of the allocation."""

    command: tuple[str, ...]
    passes_input: bool = True
    """Whether its input reaches the other end; else a file holds the order, and only the head tells of signals."""
    has_shell: bool = True
    """Whether a shell at the other end takes the line apart."""
    failures: tuple[int, ...] = (255,)
    """Its own exit codes, when it could not run anything."""

    def line(self, host: Host, program: Sequence[str]) -> list[str]:
        """Return the command that runs a program on a host."""
        return [*self.command, host.login, *([shlex.join(program)] if self.has_shell else program)]


SHELLS = {
    "ssh": RemoteShell(
        ("ssh", "-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=8")
    ),
    "sge": RemoteShell(("qrsh", "-inherit")),
    "pbs": RemoteShell(("pbs_tmrsh",), passes_input=False, has_shell=False, failures=(254, 255)),
}


def find_shell(scheduler: str, environ: Environment) -> RemoteShell | None:
    """Return the remote shell of a scheduler; None if it has none, or if pbs_tmrsh is not here, as with PALS."""
    shell = SHELLS.get(scheduler)
    if shell is None or scheduler != "pbs":
        return shell
    program = find_program(environ, shell.command[0])
    return replace(shell, command=(program,)) if program else None


def run_ranks(allocation: Allocation, launch_id: str, shell: RemoteShell, meeting: MeetingFolder) -> int:
    """Run this very command on every host of the allocation; return the code of the first rank.

    Raises:
        ClusterError: if the remote shell is not here, or fails on the first host.
    """
    hosts = allocation.hosts.value
    ranks: list[_RemoteRank] = []
    signals: list[int] = []
    with passed_on(signals.append):
        try:
            for number, order in enumerate(_orders(len(hosts), launch_id)):
                ranks.append(_RemoteRank(number, hosts[number], shell, order, meeting))
            _attend(ranks, signals)
        finally:
            _dismiss(ranks, meeting)
    if ranks[0].was_never_started():
        program, login = shell.command[0], hosts[0].login
        raise ClusterError(f"{program} could not start a rank on {login}\n    try: {program} {login} true")
    code = ranks[0].process.returncode
    return code if code >= 0 else 128 - code


def _orders(num_ranks: int, launch_id: str) -> Iterator[dict[str, Any]]:
    """Say what each rank is to do: where, with which variables and arguments."""
    environment = {
        **{name: os.environ[name] for name in os.environ if name in _TAKEN_ALONG or name.startswith(PREFIX)},
        LAUNCH_TOKEN_VARIABLE: os.environ.get(LAUNCH_TOKEN_VARIABLE) or secrets.token_hex(32),
        LAUNCH_ID_VARIABLE: launch_id,
        NUM_RANKS_VARIABLE: str(num_ranks),
    }
    for rank in range(num_ranks):
        variables = {**environment, RANK_VARIABLE: str(rank)}
        yield {"folder": str(Path.cwd()), "environment": variables, "arguments": sys.argv[1:]}


class _RemoteRank:
    """One rank and the way to it."""

    def __init__(
        self, rank: int, host: Host, shell: RemoteShell, order: dict[str, Any], meeting: MeetingFolder
    ) -> None:
        """Start it: here without a shell, as the first one is where only a child of this process can be told."""
        self.host = host.name
        self.is_reported = False
        self._shell = shell
        self._is_here = is_this_machine(host.name) or (rank == 0 and not shell.passes_input)
        self.hears = self._is_here or shell.passes_input
        """Whether it reads on its standard input what it is told."""
        program = [sys.executable, remote_stub.__file__]
        if self.hears:
            order["environment"][ORDERS_ON_STDIN_VARIABLE] = "1"
        else:
            program.append(str(meeting.leave_order(rank, order)))
        self.process = self._start(program if self._is_here else shell.line(host, program))
        if self.hears:
            self.tell(order)

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        """Start it in a session of its own: a scheduler signals this process's, and only this one passes it on."""
        try:
            return subprocess.Popen(
                command, stdin=subprocess.PIPE if self.hears else subprocess.DEVNULL, start_new_session=True
            )
        except FileNotFoundError:
            raise ClusterError(
                f"{self._shell.command[0]} is not on PATH, so no rank can be started on {self.host}\n"
                "    start the ranks with your site's launcher: LAUNCHER muster launch -- COMMAND"
            ) from None

    def tell(self, order: dict[str, Any]) -> None:
        """Write a line for it, if it hears."""
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.write(json.dumps(order).encode() + b"\n")
                self.process.stdin.flush()

    def hang_up(self) -> None:
        """Close the rank's input, which tells it to end, and wait for it; then insist on the way there."""
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()
        try:
            self.process.wait(LAST_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def was_never_started(self) -> bool:
        """Whether the remote shell failed by itself."""
        return not self._is_here and self.process.returncode in self._shell.failures

    def why_gone(self) -> str:
        """Say why it is not there any more."""
        code = self.process.returncode
        if not self.was_never_started():
            return f"its rank exited with code {code} (its own message is above)"
        program = Path(self._shell.command[0]).name
        return f"no rank could be started: {program} exited with code {code} (its own message is above)"


def _attend(ranks: Sequence[_RemoteRank], signals: list[int]) -> None:
    """Wait for the first rank; tell it of hosts whose rank could not be started or has exited.

    Signals are passed on to all ranks that hear, of which the head's forwards them to the command.
    """
    first = ranks[0]
    while first.process.poll() is None:
        while signals:
            number = signals.pop(0)
            for rank in ranks:
                rank.tell({"signal": number})
        for rank in ranks[1:]:
            if not rank.is_reported and rank.process.poll() is not None:
                rank.is_reported = True
                first.tell({"failed": {rank.host: rank.why_gone()}})
        time.sleep(POLL_SECONDS)


def _dismiss(ranks: Sequence[_RemoteRank], meeting: MeetingFolder) -> None:
    """End the ranks that are left, and remove the folder in which they may still wait for a head."""
    are_deaf = not all(rank.hears for rank in ranks)
    if are_deaf:
        meeting.publish_failure("the head's rank has ended before the ranks met")
    for rank in ranks:
        rank.hang_up()
    if are_deaf:
        meeting.remove()
