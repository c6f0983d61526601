"""A port on which a host answers the others while they are examined, and how they knock there."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from muster.clusters.doctor.ranks import Doorplate

KNOCK_SECONDS = 3.0
_AT_ONCE = 64
_TOKEN_BYTES = 16
_MOMENT = 0.2


class Door:
    """Answers everyone who connects with a word that only this host knows, until it is closed."""

    def __init__(self, port: int = 0) -> None:
        self.token = secrets.token_hex(_TOKEN_BYTES)
        self._socket = socket.create_server(("", port), backlog=1024)
        self._socket.settimeout(_MOMENT)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where to knock."""
        port: int = self._socket.getsockname()[1]
        return port

    def close(self) -> None:
        """Answer no more."""
        self._closed.set()
        self._thread.join()
        self._socket.close()

    def _answer(self) -> None:
        while not self._closed.is_set():
            # Nobody came for a moment, or whoever came has left already.
            with suppress(OSError):
                caller, _ = self._socket.accept()
                with caller:
                    caller.sendall(self.token.encode())


def knock(plate: Doorplate) -> str | None:
    """Return why a host that has an address cannot be reached, or None if it answers."""
    place = f"{plate.address}:{plate.port}"
    try:
        with socket.create_connection((plate.address, plate.port), timeout=KNOCK_SECONDS) as connection:
            answer = connection.makefile("rb").read(2 * _TOKEN_BYTES).decode(errors="replace")
    except OSError as error:
        return f"{place}: {error.strerror or error}"
    return None if answer == plate.token else f"{place} is answered by another program or host"


def knock_at_all(plates: Iterable[Doorplate]) -> dict[str, str]:
    """Return the hosts that cannot be reached, each with its reason."""
    plates = list(plates)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        reasons = pool.map(knock, plates)
        return {plate.host: reason for plate, reason in zip(plates, reasons, strict=True) if reason is not None}
