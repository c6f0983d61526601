"""A Ray that was joined, seen from a run that uses it: is its head still there?"""

from __future__ import annotations

import socket
import time

LOOK_SECONDS = 1.0
ANSWER_SECONDS = 0.5


class JoinedRay:
    """The head of a Ray, by its address; one that is no `host:port` is taken to live."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._place = (host, int(port)) if host and "/" not in host and port.isdecimal() else None
        self._is_lost = False
        self._looked = 0.0

    def is_lost(self) -> bool:
        """Whether the head's host refuses connections to it; looks at most once a second.

        A host that does not answer may be cut off for a while, and is not taken for lost.
        """
        if self._place is None or self._is_lost or time.monotonic() - self._looked < LOOK_SECONDS:
            return self._is_lost
        self._looked = time.monotonic()
        try:
            socket.create_connection(self._place, timeout=ANSWER_SECONDS).close()
        except ConnectionRefusedError:
            self._is_lost = True
        except OSError:
            return False
        return self._is_lost
