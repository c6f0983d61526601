"""Ranks that this process starts itself, one a host, by a remote shell: ssh, or Grid Engine's qrsh."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from muster.clusters.allocation.machine import is_this_machine
from muster.clusters.allocation.model import Allocation, Host
from muster.clusters.launching.options import TOKEN_VARIABLE
from muster.clusters.launching.signals import STANDARD_INPUT_VARIABLE, passed_on
from muster.errors import ClusterError

REMOTE_SHELLS: dict[str, list[str]] = {
    "ssh": ["ssh", "-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=8"],
    "sge": ["qrsh", "-inherit"],
}
SHELL_FAILED = 255
POLL_SECONDS = 0.05
LAST_SECONDS = 15.0
"""How long the other ranks may take to leave when the first one has."""
_TAKEN_ALONG = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV")


def run_ranks(allocation: Allocation, launch_id: str) -> int:
    """Run this very command on every host of the allocation; return the code of the first rank.

    Raises:
        ClusterError: if the remote shell is not here, or fails on the first host.
    """
    shell = REMOTE_SHELLS[allocation.scheduler.value]
    hosts = allocation.hosts.value
    environment = {
        **{name: os.environ[name] for name in os.environ if name in _TAKEN_ALONG or name.startswith("MUSTER_")},
        TOKEN_VARIABLE: os.environ.get(TOKEN_VARIABLE) or secrets.token_hex(32),
        "MUSTER_LAUNCH_ID": launch_id,
        "MUSTER_NUM_RANKS": str(len(hosts)),
        STANDARD_INPUT_VARIABLE: "1",
    }
    ranks: list[_RemoteRank] = []
    signals: list[int] = []
    try:
        with passed_on(signals.append):
            for number, host in enumerate(hosts):
                ranks.append(_RemoteRank(number, host, shell, environment))
            _attend(ranks, signals)
    finally:
        for rank in ranks:
            rank.hang_up()
    code = ranks[0].process.returncode
    if code == SHELL_FAILED:
        login = hosts[0].login
        raise ClusterError(f"{shell[0]} could not start a rank on {login}\n    try: {shell[0]} {login} true")
    return code if code >= 0 else 128 - code


class _RemoteRank:
    """One rank and the way to it."""

    def __init__(self, rank: int, host: Host, shell: Sequence[str], environment: dict[str, str]) -> None:
        self.host = host.name
        stub = [sys.executable, "-m", "muster.clusters.launching.remote_stub"]
        command = stub if is_this_machine(host.name) else [*shell, host.login, shlex.join(stub)]
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        except FileNotFoundError:
            raise ClusterError(
                f"{shell[0]} is not on PATH, so no rank can be started on {host.name}\n"
                "    start the ranks with your site's launcher: LAUNCHER muster launch -- COMMAND"
            ) from None
        self.is_reported = False
        self.tell(
            {
                "folder": str(Path.cwd()),
                "environment": {**environment, "MUSTER_RANK": str(rank)},
                "arguments": sys.argv[1:],
            }
        )

    def tell(self, order: dict[str, Any]) -> None:
        with suppress(OSError):
            self._input.write(json.dumps(order).encode() + b"\n")
            self._input.flush()

    def hang_up(self) -> None:
        """Close the rank's input, which tells it to end, and wait for it; then insist on the way there."""
        with suppress(OSError):
            self._input.close()
        try:
            self.process.wait(LAST_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    @property
    def _input(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin


def _attend(ranks: Sequence[_RemoteRank], signals: list[int]) -> None:
    """Wait for the first rank; tell it of hosts whose rank could not be started or has exited.

    Signals are passed on to all ranks, of which the head's forwards them to the command.
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
                first.tell({"failed": {rank.host: _reason(rank)}})
        time.sleep(POLL_SECONDS)


def _reason(rank: _RemoteRank) -> str:
    code = rank.process.returncode
    if code != SHELL_FAILED:
        return f"its rank exited with code {code} (its own message is above)"
    program = str(rank.process.args[0] if isinstance(rank.process.args, list) else rank.process.args)
    return f"no rank could be started: {program} exited with code {code} (its own message is above)"
