"""The server of the live page: on this machine's loopback, until Ctrl-C."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from muster.errors import InputError
from muster.extras import how_to_install

if TYPE_CHECKING:
    from uvicorn import Server

LOOPBACK = "127.0.0.1"
MOST_CONNECTIONS = 500
_CLOSING_SECONDS = 1
_BACKLOG = 128


@dataclass(frozen=True)
class LiveServer:
    """A server that listens, and answers once it is run."""

    port: int
    token: str
    server: Server
    listener: socket.socket

    @property
    def address(self) -> str:
        """Where the list of runs is; without the token, which it asks for."""
        return f"http://{LOOPBACK}:{self.port}/"

    @property
    def address_with_token(self) -> str:
        """What a browser opens."""
        return f"{self.address}?token={self.token}"

    def run(self) -> None:
        """Answer requests until a signal ends it."""
        self.server.run(sockets=[self.listener])


@contextmanager
def live_server(root: Path, port: int | None, notice: Callable[[str], None]) -> Iterator[LiveServer]:
    """Listen on the loopback; a port that is not given is any free one.

    Raises:
        InputError: if the packages of the extra are missing, or the port is taken.
    """
    try:
        from uvicorn import Config, Server

        from muster.serving.app import LiveApp
    except ModuleNotFoundError as error:
        raise InputError(
            f"{error.name} is not installed, which `muster serve` needs{how_to_install('serve')}"
        ) from None

    app = LiveApp(root, notice)
    token = secrets.token_urlsafe(32)
    with _listener(port) as listener:
        number = int(listener.getsockname()[1])
        # Cookies of one host belong to all its ports: those of two servers must not have the same name.
        guarded = app.guarded(token, f"muster-{secrets.token_hex(4)}")
        config = Config(
            guarded,
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=_CLOSING_SECONDS,
        )
        yield LiveServer(number, token, Server(config), listener)


def _listener(port: int | None) -> socket.socket:
    try:
        return socket.create_server((LOOPBACK, port or 0), backlog=_BACKLOG)
    except OSError as error:
        raise InputError(
            f"--port {port}: cannot be used: {error.strerror}\n    leave it out, and a free one is taken"
        ) from None
