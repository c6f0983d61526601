"""The ranks of one host: one leads, the others hand it their cards and then wait for it without any polling.

They meet at a socket in the kernel's own name space, which needs no file and ends with its owner. Its name comes
from the launch's secret, and both ends check the user on the other side: nobody else can take the name or listen.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

_RETRY_SECONDS = 0.05
_LOOK_MILLISECONDS = 500
_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True)
class RankCard:
    """What a rank tells the leader of its host."""

    rank: int
    affinity: list[int]
    gpu_mask: list[str] | None
    """Devices that a mask variable lets this rank see; None without a mask."""


class LocalLeader:
    """The leader's end."""

    def __init__(self, secret: bytes, own: RankCard) -> None:
        """Take the lead on this host.

        Raises:
            OSError: if another rank has it.
        """
        self._cards = {own.rank: own}
        self._followers: list[socket.socket] = []
        self._signals: list[int] = []
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self._listener.bind(_name(secret))
        except OSError:
            self._listener.close()
            raise
        self._listener.listen(1024)
        threading.Thread(target=self._attend, name="local ranks", daemon=True).start()

    def cards(self) -> list[RankCard]:
        """Return the cards of the ranks that are here, by rank."""
        return [self._cards[rank] for rank in sorted(self._cards)]

    def take_signals(self) -> list[int]:
        """Return the signals that the other ranks have received since the last call."""
        taken, self._signals = self._signals, []
        return taken

    def dismiss(self, code: int) -> None:
        """Let the other ranks exit with a code."""
        for follower in self._followers:
            with suppress(OSError):
                follower.sendall(b"%d\n" % code)

    def _attend(self) -> None:
        """Read what the other ranks say, all of them in one thread."""
        selector = selectors.DefaultSelector()
        selector.register(self._listener, selectors.EVENT_READ)
        unread: dict[Any, bytes] = {}
        while True:
            for key, _ in selector.select():
                end = key.fileobj
                assert isinstance(end, socket.socket)
                if end is not self._listener:
                    if not self._hear(end, unread):
                        selector.unregister(end)
                elif (follower := self._accept()) is not None:
                    unread[follower] = b""
                    selector.register(follower, selectors.EVENT_READ)

    def _accept(self) -> socket.socket | None:
        with suppress(OSError):
            follower, _ = self._listener.accept()
            if _user_of(follower) == os.geteuid():
                self._followers.append(follower)
                return follower
            follower.close()
        return None

    def _hear(self, follower: socket.socket, unread: dict[Any, bytes]) -> bool:
        """Take what a rank has said; return whether it may say more."""
        try:
            received = follower.recv(65536)
        except OSError:
            return False
        *lines, unread[follower] = (unread[follower] + received).split(b"\n")
        for said in map(json.loads, lines):
            if "signal" in said:
                self._signals.append(said["signal"])
            else:
                self._cards[said["rank"]] = RankCard(**said)
        return bool(received)


def follow(secret: bytes, own: RankCard, seconds: float, take_signals: Callable[[], Sequence[int]]) -> int | None:
    """Hand over a card and stay until the leader says with which code to exit; None if no leader is left.

    Signals are passed on to the leader; before there is one, the first of them ends the waiting.
    """
    deadline = time.monotonic() + seconds
    while (leader := _connected(secret)) is None:
        if time.monotonic() > deadline or take_signals():
            return None
        time.sleep(_RETRY_SECONDS)
    with leader:
        _send(leader, asdict(own))
        received = b""
        waiting = select.poll()
        waiting.register(leader, select.POLLIN)
        while not received.endswith(b"\n"):
            for number in take_signals():
                _send(leader, {"signal": number})
            if waiting.poll(_LOOK_MILLISECONDS):
                with suppress(OSError):
                    received += (part := leader.recv(64))
                    if part:
                        continue
                return None
    return int(received)


def _connected(secret: bytes) -> socket.socket | None:
    leader = socket.socket(socket.AF_UNIX)
    with suppress(OSError):
        leader.connect(_name(secret))
        if _user_of(leader) == os.geteuid():
            return leader
    leader.close()
    return None


def _send(end: socket.socket, value: dict[str, Any]) -> None:
    with suppress(OSError):
        end.sendall(json.dumps(value).encode() + b"\n")


def _user_of(end: socket.socket) -> int:
    """Return the user on the other end, by the kernel's word."""
    option = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(option)
    return int(user)


def _name(secret: bytes) -> bytes:
    digest = hashlib.blake2b(b"local ranks", key=secret[:64], digest_size=16).hexdigest()
    return b"\0muster-" + digest.encode("ascii")
