"""A tunnel from this machine to another host's loopback, by an ssh that ends with this process."""

from __future__ import annotations

import select
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from muster.errors import JobError
from muster.jobs.places.connection import ALIVE, CONNECT_SECONDS, LOGIN_SECONDS

_READY = "muster-ready"


class Hop:
    """An ssh that leads a port or socket here to a port of a host's loopback."""

    def __init__(self, host: str, process: subprocess.Popen[bytes], said: IO[bytes]) -> None:
        self._host = host
        self._process = process
        self._said = said

    def await_ready(self, seconds: float) -> None:
        """Wait until the host has let us in.

        Raises:
            JobError: with what ssh said.
        """
        deadline, output = time.monotonic() + seconds, b""
        stream = self._process.stdout
        assert stream is not None
        while _READY.encode() not in output:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([stream], [], [], left)[0]:
                raise JobError(f"{self._host}: no answer over ssh within {seconds:g} s")
            if not (chunk := stream.read1(4096)):  # type: ignore[attr-defined]
                raise JobError(
                    f"{self._host}: ssh to it is refused from this machine: {self.last_words()}\n"
                    f"    try: ssh {self._host} true; some sites let you in only while your job runs there"
                )
            output += chunk

    def loss(self) -> str | None:
        """Return what happened to the connection, or None while it lasts."""
        if self._process.poll() is None:
            return None
        return f"{self._host}: the connection was lost: {self.last_words()}"

    def last_words(self) -> str:
        """Return the last line that ssh said."""
        self._process.poll()
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "no reason was given")


@contextmanager
def hop(host: str, port: int, listen: str, *, may_ask: bool) -> Iterator[Hop]:
    """Lead `ADDRESS:PORT` or a socket's path of this machine to a port of a host's loopback, for a while.

    Its remote command ends when the pipe to it is closed, so nothing is left even if this process is killed.

    Raises:
        JobError: if ssh does not let us in.
    """
    batch = "no" if may_ask else "yes"
    command = ["ssh", "-T", "-S", "none", *ALIVE, "-o", f"BatchMode={batch}", "-o", "ExitOnForwardFailure=yes"]
    command += ["-L", f"{listen}:127.0.0.1:{port}", host, f"echo {_READY}; cat >/dev/null"]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            # An ssh that may ask needs the terminal.
            start_new_session=not may_ask,
        )
        try:
            opened = Hop(host, process, said)
            opened.await_ready(LOGIN_SECONDS if may_ask else CONNECT_SECONDS + 10)
            yield opened
        finally:
            process.terminate()
            process.communicate()
