"""The head's board, as another host sees it."""

from __future__ import annotations

import json
import select
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from muster.clusters.launching.board_server import LONGEST_MESSAGE, Address
from muster.clusters.launching.board_topics import HeadState, Topic
from muster.clusters.launching.tls import client_context
from muster.environment_variables import LAUNCH_TOKEN_VARIABLE
from muster.errors import ClusterError

ANSWER_SECONDS = 5.0
"""How long an answer may take beyond the time that was allowed for it."""
PUT_SECONDS = 15.0
RETRY_SECONDS = 0.2
_LOOK_MILLISECONDS = 200


class HeadGoneError(Exception):
    """The head's host answers, but no head listens there any more."""


class BoardClient:
    """One connection to the board, made again when it breaks; used by one thread."""

    def __init__(self, address: Address, secret: bytes, rank: int, host: str = "") -> None:
        self.address = address
        self._rank = rank
        self._host = host
        self._context = client_context(secret)
        self._connection: ssl.SSLSocket | None = None
        self._unread = b""
        self._state = HeadState()

    def connect(self, seconds: float, is_over: Callable[[], bool]) -> None:
        """Wait until the board can be reached, or until it is over.

        Raises:
            ClusterError: saying why it cannot be reached.
        """
        deadline = time.monotonic() + seconds
        while not is_over():
            try:
                self._connect()
                return
            except OSError as error:
                if time.monotonic() > deadline:
                    raise ClusterError(unreachable(self.address, error)) from None
            time.sleep(RETRY_SECONDS)

    def put(self, topic: Topic, value: Any, *, number: int | None = None, seconds: float = PUT_SECONDS) -> None:
        """Write this rank's value, or that of another number; through a cut of the network, for a while."""
        said = {"put": topic, "number": self._rank if number is None else number, "value": value}
        deadline = time.monotonic() + seconds
        while True:
            try:
                self._ask(said, 0.0, lambda: False)
                return
            except (OSError, EOFError):
                if time.monotonic() > deadline:
                    return
            time.sleep(RETRY_SECONDS)

    def state(self, seconds: float, is_over: Callable[[], bool] = lambda: False) -> HeadState | None:
        """Return the head's state when it has changed, at the latest after some seconds; None without an answer.

        Raises:
            HeadGoneError: if no head is there any more.
        """
        question = {
            "rank": self._rank,
            "host": self._host,
            "seen": self._state.version,
            "seconds": seconds,
        }
        try:
            self._state = HeadState(**self._ask(question, seconds, is_over))
        except ConnectionRefusedError:
            raise HeadGoneError from None
        except (OSError, EOFError):
            time.sleep(RETRY_SECONDS)
            return None
        return self._state

    def close(self) -> None:
        """Leave the board."""
        if self._connection is not None:
            self._connection.close()
            self._connection, self._unread = None, b""

    def _ask(self, question: dict[str, Any], seconds: float, is_over: Callable[[], bool]) -> Any:
        """Return the board's answer.

        Raises:
            OSError, EOFError: if there is none.
        """
        try:
            connection = self._connection or self._connect()
            connection.sendall(json.dumps(question).encode() + b"\n")
            return json.loads(self._read_line(connection, seconds + ANSWER_SECONDS, is_over))
        except (OSError, EOFError):
            self.close()
            raise

    def _read_line(self, connection: ssl.SSLSocket, seconds: float, is_over: Callable[[], bool]) -> bytes:
        deadline = time.monotonic() + seconds
        waiting = select.poll()
        waiting.register(connection, select.POLLIN)
        while b"\n" not in self._unread:
            if is_over() or time.monotonic() > deadline:
                raise TimeoutError("no answer")
            if connection.pending() or waiting.poll(_LOOK_MILLISECONDS):
                with suppress(ssl.SSLWantReadError):
                    received = connection.recv(65536)
                    if not received or len(self._unread) > LONGEST_MESSAGE:
                        raise EOFError
                    self._unread += received
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _connect(self) -> ssl.SSLSocket:
        plain = socket.create_connection(self.address, timeout=ANSWER_SECONDS)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._connection = self._context.wrap_socket(plain)
        except ssl.SSLCertVerificationError:
            plain.close()
            raise ClusterError(
                f"{_spelled(self.address)} is not this launch's head: it has another secret\n"
                f"    is {LAUNCH_TOKEN_VARIABLE} the same on all ranks, and no other launch at that address?"
            ) from None
        except OSError:
            plain.close()
            raise
        return self._connection


def unreachable(address: Address, error: BaseException) -> str:
    """Say why an address does not answer."""
    where = _spelled(address)
    if isinstance(error, socket.gaierror):
        return f"{where}: the name {address[0]} is not known on {socket.gethostname()}\n    give its IP address"
    if isinstance(error, ConnectionRefusedError):
        return (
            f"{where}: refused: nothing listens there, or a firewall forbids it\n    is the head's rank running?"
        )
    if isinstance(error, TimeoutError):
        return (
            f"{where}: no answer from {socket.gethostname()}: a firewall, or a network that does not lead there\n"
            "    choose another network with --interface, such as hsn0 or ib0"
        )
    return f"{where}: {getattr(error, 'strerror', None) or error}"


def _spelled(address: Address) -> str:
    return f"{address[0]}:{address[1]}"
