"""A board for hosts that share no folder: in the memory of the head's rank, where the others come by TCP.

Whoever comes must know the launch's secret, which is never sent: both sides prove it by answering a challenge.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any

from muster.errors import ClusterError

ANSWER_SECONDS = 3.0
PUT_SECONDS = 15.0
RETRY_SECONDS = 0.1

Address = tuple[str, int]


class ServedBoard:
    """The board itself, on the head's rank."""

    def __init__(self, host: str, port: int, secret: bytes) -> None:
        """Open the board for the other ranks; port 0 takes any.

        Raises:
            ClusterError: if the port is not to be had.
        """
        self._values: dict[str, Any] = {}
        self._secret = secret
        self._closed = False
        try:
            self._door = socket.create_server((host, port), backlog=1024)
        except OSError as error:
            raise ClusterError(
                f"{host}:{port}: the ranks cannot meet there: {error.strerror}\n"
                "    choose another port with --head-address"
            ) from None
        self.address: Address = (host, self._door.getsockname()[1])
        threading.Thread(target=self._welcome, name="board", daemon=True).start()

    def put(self, name: str, value: Any) -> None:
        self._values[name] = value

    def get(self, name: str) -> Any | None:
        return self._values.get(name)

    def names(self, prefix: str) -> set[str]:
        return {name.removeprefix(prefix) for name in list(self._values) if name.startswith(prefix)}

    def is_open(self) -> bool:
        return not self._closed

    def close(self) -> None:
        self._closed = True
        self._door.close()

    def _welcome(self) -> None:
        while not self._closed:
            with suppress(OSError):
                visitor, _ = self._door.accept()
                threading.Thread(target=self._serve, args=(visitor,), daemon=True).start()

    def _serve(self, visitor: socket.socket) -> None:
        with _connection(visitor) as connection, suppress(OSError, EOFError, AuthenticationError):
            deliver_challenge(connection, self._secret)
            answer_challenge(connection, self._secret)
            while not self._closed:
                question, *arguments = json.loads(connection.recv_bytes())
                connection.send_bytes(json.dumps(self._answer(question, arguments)).encode())

    def _answer(self, question: str, arguments: list[Any]) -> Any:
        if question == "put":
            self.put(*arguments)
            return True
        if question == "get":
            return self.get(*arguments)
        if question == "names":
            return sorted(self.names(*arguments))
        return True


class RemoteBoard:
    """The head's board, as another rank sees it."""

    def __init__(self, address: Address, secret: bytes, seconds: float) -> None:
        """Wait until the board is there.

        Raises:
            ClusterError: saying why it cannot be reached.
        """
        self._address = address
        self._secret = secret
        self._connection: Connection | None = None
        self._one_at_a_time = threading.Lock()
        deadline = time.monotonic() + seconds
        while True:
            try:
                self._ask("open")
                return
            except (OSError, EOFError) as error:
                if time.monotonic() > deadline:
                    raise ClusterError(unreachable(address, error)) from None
            time.sleep(RETRY_SECONDS)

    def put(self, name: str, value: Any) -> None:
        """Write a value; through a cut of the network, for a while."""
        deadline = time.monotonic() + PUT_SECONDS
        while True:
            try:
                self._ask("put", name, value)
                return
            except (OSError, EOFError):
                if time.monotonic() > deadline:
                    return
            time.sleep(RETRY_SECONDS)

    def get(self, name: str) -> Any | None:
        with suppress(OSError, EOFError):
            return self._ask("get", name)
        return None

    def names(self, prefix: str) -> set[str]:
        with suppress(OSError, EOFError):
            return set(self._ask("names", prefix))
        return set()

    def is_open(self) -> bool:
        try:
            self._ask("open")
        except (ConnectionError, EOFError):
            return False
        except OSError:
            return True
        return True

    def close(self) -> None:
        with self._one_at_a_time:
            self._hang_up()

    def _ask(self, *question: Any) -> Any:
        """Return the board's answer.

        Raises:
            OSError, EOFError: if there is none.
        """
        with self._one_at_a_time:
            try:
                connection = self._connection or self._connect()
                connection.send_bytes(json.dumps(question).encode())
                if not connection.poll(ANSWER_SECONDS):
                    raise TimeoutError("no answer")
                return json.loads(connection.recv_bytes())
            except (OSError, EOFError):
                self._hang_up()
                raise

    def _connect(self) -> Connection:
        connection = _connection(socket.create_connection(self._address, timeout=ANSWER_SECONDS))
        self._connection = connection
        if not connection.poll(ANSWER_SECONDS):
            raise TimeoutError("no answer")
        try:
            answer_challenge(connection, self._secret)
            deliver_challenge(connection, self._secret)
        except AuthenticationError:
            raise ClusterError(
                f"{_spelled(self._address)} is not this launch's head: it has another secret\n"
                "    is MUSTER_LAUNCH_TOKEN the same on all ranks, and no other launch at that address?"
            ) from None
        return connection

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def unreachable(address: Address, error: BaseException) -> str:
    """Say why an address does not answer."""
    where = _spelled(address)
    if isinstance(error, socket.gaierror):
        return f"{where}: the name {address[0]} is not known on {socket.gethostname()}\n    give its IP address"
    if isinstance(error, ConnectionRefusedError):
        return f"{where}: refused: nothing listens there, or a firewall says no\n    is the head's rank running?"
    if isinstance(error, TimeoutError):
        return (
            f"{where}: no answer from {socket.gethostname()}: a firewall, or a network that does not lead there\n"
            "    choose another network with --interface, such as hsn0 or ib0"
        )
    return f"{where}: {getattr(error, 'strerror', None) or error}"


def _connection(end: socket.socket) -> Connection:
    end.settimeout(None)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Connection(end.detach())


def _spelled(address: Address) -> str:
    return f"{address[0]}:{address[1]}"
