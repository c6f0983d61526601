"""One ssh connection to a host, shared by all that muster does there, so that a login is asked for once."""

from __future__ import annotations

import base64
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from muster.errors import JobError
from muster.jobs.commands import user_name

CONNECT_SECONDS = 10
ANSWER_SECONDS = 60.0
LOGIN_SECONDS = 300.0
"""How long a person may take to type a password or a second factor."""
KEPT_OPEN = "4h"
_FAILED = 255
"""ssh's own exit code; others are the remote command's."""
_ENDS_WITH_INPUT = (
    "exec 3<&0; {line} </dev/null 3<&- & child=$!; {{ cat <&3 >/dev/null; kill $child; }} 2>/dev/null & watch=$!; "
    "exec 3<&-; wait $child; code=$?; kill $watch 2>/dev/null; exit $code"
)
"""Runs a line until it ends, or until there is nobody left at the other end."""
ALIVE = ("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-o", f"ConnectTimeout={CONNECT_SECONDS}")
"""Options by which ssh notices that a host is gone."""


class UnreachableError(JobError):
    """A host cannot be reached, or does not let this user in."""


class Connection:
    """The way to a host. Who the user is there, by which port and key, is for ssh's own configuration to say."""

    def __init__(self, host: str, setup: Sequence[str] = (), *, is_login: bool = True) -> None:
        """Take the host's name, and the shell lines that come before every command there."""
        self.host = host
        self._setup = setup
        self._shell = "bash -lc" if is_login else "bash -c"

    def open(self, *, may_ask: bool) -> None:
        """Log in, unless a connection is open already; ssh itself may ask for a password on this terminal.

        Raises:
            UnreachableError: with what ssh said.
        """
        if self._is_open():
            return
        try:
            self._log_in("-o", "BatchMode=yes")
        except UnreachableError:
            if not may_ask or not sys.stdin.isatty():
                raise
            self._log_in()

    def close(self) -> None:
        """End the connection for all who share it."""
        subprocess.run(
            ["ssh", *self._shared, "-O", "exit", self.host],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )

    def run(
        self, line: str, order: bytes = b"", *, seconds: float = ANSWER_SECONDS
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a shell's line on the host, with something on its standard input.

        Raises:
            UnreachableError: if the connection fails, or there is no answer in time.
        """
        command = [*self.ssh, self.host, self._remote(line)]
        try:
            done = subprocess.run(command, input=order, capture_output=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            raise UnreachableError(f"{self.host}: no answer within {seconds:g} s") from None
        if done.returncode == _FAILED and not self._is_open():
            raise UnreachableError(f"{self.host}: {_last_line(done.stderr) or 'the connection was lost'}")
        return done

    def attend(self, line: str, *, has_terminal: bool) -> int:
        """Run a shell's line on the host with this process's terminal or output; return its exit code.

        It ends when this process does: by the terminal's end, or else by the end of its standard input.
        """
        if has_terminal:
            return subprocess.call(
                [*self.ssh, "-t", "-o", "LogLevel=ERROR", self.host, self._remote(f"exec {line}")]
            )
        with subprocess.Popen(
            [*self.ssh, self.host, self._remote(_ENDS_WITH_INPUT.format(line=line))], stdin=subprocess.PIPE
        ) as process:
            return process.wait()

    def converse(self, line: str) -> subprocess.Popen[str]:
        """Start a shell's line on the host whose input and output are pipes here; Ctrl-C does not reach it."""
        return subprocess.Popen(
            [*self.ssh, self.host, self._remote(f"exec {line}")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )

    @contextmanager
    def forward(self, port: int, target: str) -> Iterator[None]:
        """Lead a port of this machine's loopback to `HOST:PORT` or a socket's path on the host, for a while.

        A shared connection would keep the port after the process that asked for it, so it is told to give it up.

        Raises:
            JobError: if the port is taken, or the host forbids it.
        """
        which = ("-L", f"127.0.0.1:{port}:{target}")
        if not self._is_open():
            with self._forward_alone(which):
                yield
            return
        self._control("forward", which)
        try:
            yield
        finally:
            self._control("cancel", which, check=False)

    @contextmanager
    def _forward_alone(self, which: Sequence[str]) -> Iterator[None]:
        """Forward over a connection of its own, where the user's configuration shares none."""
        options = ("-N", "-o", "ExitOnForwardFailure=yes", *which)
        process = subprocess.Popen([*self.ssh, *options, self.host], stdin=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.terminate()
            process.wait()

    def _control(self, what: str, which: Sequence[str], *, check: bool = True) -> None:
        done = subprocess.run(
            ["ssh", *self._shared, "-O", what, *which, self.host],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if check and done.returncode:
            raise JobError(f"{self.host}: ssh cannot forward a port: {_last_line(done.stderr)}")

    def rsync(self, *arguments: str, listed: bytes = b"", seconds: float = 3600.0) -> None:
        """Run rsync over the connection; what it fails to do is an error.

        Raises:
            UnreachableError: if the connection fails.
            JobError: with rsync's output.
        """
        command = ["rsync", "--protect-args", "--rsh", shlex.join(self.ssh), *arguments]
        try:
            done = subprocess.run(command, input=listed, capture_output=True, timeout=seconds, check=False)
        except FileNotFoundError:
            raise JobError(
                "rsync is not installed on this machine\n    install it with your package manager"
            ) from None
        except subprocess.TimeoutExpired:
            raise UnreachableError(f"{self.host}: rsync did not end within {seconds:g} s") from None
        # 24: files that were there when rsync looked have gone since, as checkpoints do while a run continues.
        if done.returncode not in (0, 24):
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            error = UnreachableError if done.returncode in (_FAILED, 30, 35) else JobError
            raise error(f"{self.host}: rsync failed with code {done.returncode}: {lines[0] if lines else ''}")

    @property
    def ssh(self) -> list[str]:
        """How ssh is called once the connection is open: it asks nothing, and keeps nothing open itself."""
        return ["ssh", "-T", *self._shared, "-o", "ControlMaster=no", "-o", "BatchMode=yes", *ALIVE]

    def _remote(self, line: str) -> str:
        """Return what the remote user's shell is to run; encoded, for shells differ in what quotes keep apart."""
        lines = "\n".join([*self._setup, line])
        code = base64.b64encode(lines.encode()).decode()
        return f"exec {self._shell} 'eval \"$(echo {code} | base64 -d)\"'"

    @cached_property
    def configured(self) -> dict[str, str]:
        """What ssh's own configuration says of the host, such as `hostname` and `port`."""
        try:
            done = subprocess.run(["ssh", "-G", self.host], capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise UnreachableError("ssh is not installed on this machine") from None
        pairs = (line.partition(" ") for line in done.stdout.splitlines())
        return {key.lower(): value for key, _, value in pairs}

    @cached_property
    def _shared(self) -> list[str]:
        """Say where the shared connection is: where the user's own configuration puts it, or in our folder."""
        if self.configured.get("controlpath", "none") != "none":
            return []
        return ["-o", f"ControlPath={sockets_folder()}/%C"]

    def _is_open(self) -> bool:
        done = subprocess.run(
            ["ssh", *self._shared, "-O", "check", self.host],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        return done.returncode == 0

    def _log_in(self, *options: str) -> None:
        """Open the connection. It outlives this call and keeps its standard error, which so cannot be a pipe."""
        is_kept = not self._shared and self.configured.get("controlpersist", "no") not in ("no", "0")
        kept = [] if is_kept else ["-o", "ControlMaster=auto", "-o", f"ControlPersist={KEPT_OPEN}"]
        command = ["ssh", *self._shared, *kept, *ALIVE, *options, self.host, "true"]
        is_quiet = "BatchMode=yes" in options
        with tempfile.TemporaryFile() as said:
            try:
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL if is_quiet else None,
                    stdout=subprocess.DEVNULL,
                    stderr=said if is_quiet else None,
                    timeout=CONNECT_SECONDS + 10 if is_quiet else LOGIN_SECONDS,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise UnreachableError(f"{self.host}: no answer from its ssh server") from None
            said.seek(0)
            if done.returncode:
                reason = _last_line(said.read()) or f"ssh exited with code {done.returncode}"
                raise UnreachableError(f"{self.host}: {reason}\n    try: ssh {self.host} true")


def require_programs() -> None:
    """Refuse to begin without ssh and rsync.

    Raises:
        JobError: naming what is missing.
    """
    missing = [program for program in ("ssh", "rsync") if shutil.which(program) is None]
    if missing:
        raise JobError(f"{', '.join(missing)}: not installed here\n    install with your package manager")


def _last_line(output: bytes) -> str:
    lines = [line for line in output.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def sockets_folder() -> Path:
    """Return the folder of the connections: ours alone, on this machine's own disk, with a short path."""
    own = os.environ.get("XDG_RUNTIME_DIR")
    parent = own if own and os.access(own, os.W_OK) else "/tmp"
    folder = Path(parent) / f"muster-ssh-{user_name()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise JobError(f"{folder}: is not a folder that only you can enter\n    remove it, or chmod 700 it")
    return folder
