"""A Ray that was joined, seen from a run that uses it: is its head still there?"""

from __future__ import annotations

import socket
import time
from contextlib import suppress

LOOK_SECONDS = 1.0
ANSWER_SECONDS = 0.5
_CHUNK = 65_536


class JoinedRay:
    """The head of a Ray, by its address; one that is no `host:port` is taken to live.

    A connection is kept open, which the head's kernel closes at once when the head dies: Ray itself then ends this
    process within a second or so, and the run has to be saved before.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._place = (host, int(port)) if host and "/" not in host and port.isdecimal() else None
        self._connection: socket.socket | None = None
        self._is_lost = False
        self._looked = 0.0

    def is_lost(self) -> bool:
        """Whether the head's host refuses connections to it.

        A host that does not answer may be cut off for a while, and is not taken for lost.
        """
        if self._place is None or self._is_lost or self._is_connected():
            return self._is_lost
        was_connected = self._connection is not None
        self.close()
        if was_connected or time.monotonic() - self._looked >= LOOK_SECONDS:
            self._connect()
        return self._is_lost

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _is_connected(self) -> bool:
        """Whether the connection is open; what the head says on it is of no interest."""
        if self._connection is None:
            return False
        try:
            while self._connection.recv(_CHUNK):
                continue
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def _connect(self) -> None:
        assert self._place is not None
        self._looked = time.monotonic()
        with suppress(OSError):
            try:
                self._connection = socket.create_connection(self._place, timeout=ANSWER_SECONDS)
                self._connection.setblocking(False)
            except ConnectionRefusedError:
                self._is_lost = True
