"""The board of a launch, in the memory of the head's rank: what the hosts say, and what the head says to all.

One thread serves all hosts. Whoever does not prove within seconds that they know the secret is disconnected, and
only so many may try at a time: the slowest of them make room for the next.
"""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import threading
from asyncio import sslproto
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from muster.clusters.launching.board_topics import HeadState, Topic
from muster.clusters.launching.tls import server_context
from muster.errors import ClusterError

Address = tuple[str, int]

HANDSHAKE_SECONDS = 5.0
MOST_STRANGERS = 512
"""Connections at a time that have not shown the secret yet."""
FAIR_SECONDS = 1.0
"""How long one of them may take before it has to make room for the next."""
LONGEST_MESSAGE = 1024**2
LONGEST_WAIT = 10.0
BUFFER_BYTES = 16 * 1024
"""What asyncio keeps for each connection to read into; its own 256 KiB would be much for a thousand hosts."""
_RETRY_SECONDS = 0.05


class BoardServer:
    """Values by topic and rank that the hosts write, and a state that the head writes and all hosts follow."""

    def __init__(self, host: str, port: int, secret: bytes) -> None:
        """Open the board; port 0 takes any.

        Raises:
            ClusterError: if the port cannot be had.
        """
        self._values: dict[tuple[Topic, int], Any] = {}
        self._state = HeadState(version=0)
        self._handed_out: dict[str, dict[str, Any]] = {}
        self._connected: Counter[int] = Counter()
        self._context = server_context(secret)
        sslproto.SSLProtocol.max_size = BUFFER_BYTES
        _allow_many_connections()
        try:
            self._listener = socket.create_server((host, port), backlog=1024)
        except OSError as error:
            raise ClusterError(
                f"{host}:{port}: the ranks cannot meet there: {error.strerror}\n    choose another port or address"
            ) from None
        self._listener.setblocking(False)
        self.address: Address = (host, self._listener.getsockname()[1])
        self._loop = asyncio.new_event_loop()
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        """Those of all connections: the loop itself holds its tasks only weakly."""
        self._strangers: dict[asyncio.Task[None], float] = {}
        self._thread = threading.Thread(target=self._run, name="board", daemon=True)
        self._thread.start()

    def all_of(self, topic: Topic) -> dict[int, Any]:
        """Return what the hosts have said of a topic, by rank."""
        return {rank: value for (about, rank), value in list(self._values.items()) if about is topic}

    def take_all_of(self, topic: Topic) -> list[Any]:
        """Return and remove what was said of a topic."""
        return [self._values.pop((about, number)) for about, number in list(self._values) if about is topic]

    def is_connected(self, rank: int) -> bool:
        """Whether a rank follows the state now."""
        return self._connected[rank] > 0

    def announce(self, **changes: Any) -> None:
        """Change the state, and let all hosts know."""
        changed = replace(self._state, **changes)
        if changed == self._state:
            return
        self._state = replace(changed, version=self._state.version + 1)
        self._loop.call_soon_threadsafe(self._wake)

    def hand_out(self, values: Mapping[str, dict[str, Any]]) -> None:
        """Set what each host reads as its `own`, by its name: not that of others, for there may be a thousand."""
        self._handed_out = dict(values)

    def close(self) -> None:
        """Cut all connections and listen no more; hosts see at once that the head is gone."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._tasks.add(self._loop.create_task(self._accept()))
        self._loop.run_forever()
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
        self._loop.close()

    async def _accept(self) -> None:
        while True:
            try:
                connection, _ = await self._loop.sock_accept(self._listener)
            except OSError:
                self._cut_off_oldest()
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            task = self._loop.create_task(self._welcome(connection))
            self._tasks.add(task)
            self._strangers[task] = self._loop.time()
            task.add_done_callback(self._forget)
            while len(self._strangers) >= MOST_STRANGERS:
                if self._loop.time() - next(iter(self._strangers.values())) > FAIR_SECONDS:
                    self._cut_off_oldest()
                else:
                    await asyncio.sleep(_RETRY_SECONDS)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._strangers.pop(task, None)

    def _cut_off_oldest(self) -> None:
        if self._strangers:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.cancel()

    async def _welcome(self, connection: socket.socket) -> None:
        """Serve a connection once it has shown the secret."""
        reader = asyncio.StreamReader(LONGEST_MESSAGE, self._loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=self._loop)
        with connection, suppress(OSError, ValueError, KeyError, TypeError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            transport, _ = await self._loop.connect_accepted_socket(
                lambda: protocol, connection, ssl=self._context, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
            task = asyncio.current_task()
            assert task is not None
            self._strangers.pop(task, None)
            writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)
            try:
                await self._serve(reader, writer)
            finally:
                transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        followers: set[int] = set()
        try:
            while line := await reader.readline():
                question = json.loads(line)
                if "put" in question:
                    self._values[Topic(question["put"]), int(question["number"])] = question["value"]
                    answer: Any = True
                else:
                    if question["rank"] not in followers:
                        followers.add(question["rank"])
                        self._connected[question["rank"]] += 1
                    state = await self._state_after(question["seen"], question["seconds"])
                    answer = asdict(replace(state, own=self._handed_out.get(question["host"])))
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        finally:
            self._connected.subtract(followers)

    async def _state_after(self, seen: int, seconds: float) -> HeadState:
        """Return the state when it is newer than what was seen, or after a while as it is."""
        if self._state.version == seen:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), min(seconds, LONGEST_WAIT))
        return self._state


def _allow_many_connections() -> None:
    """Raise the soft limit of open files: every host keeps a connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
