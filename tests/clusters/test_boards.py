"""The board of hosts that share no folder: who gets in, what crosses, what a lost head looks like."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from muster.clusters.launching.causes import why_absent, why_unreachable
from muster.clusters.launching.meeting import Meeting
from muster.clusters.launching.network_board import RemoteBoard, ServedBoard
from muster.errors import ClusterError
from tests.clusters.test_launching import card

SECRET = b"of this launch"


@pytest.fixture
def served() -> Iterator[ServedBoard]:
    board = ServedBoard("127.0.0.1", 0, SECRET)
    yield board
    board.close()


def test_the_ranks_read_what_each_of_them_writes(served: ServedBoard) -> None:
    head, other = Meeting(served), Meeting(RemoteBoard(served.address, SECRET, seconds=5))
    other.join(card(1, "b"))
    head.join(card(0, "a"))
    assert {rank: found.host for rank, found in other.cards().items()} == {0: "a", 1: "b"}
    assert head.cards() == other.cards()
    other.put("left-1", [{"event": "ended"}])
    assert head.get("left-1") == [{"event": "ended"}]
    assert head.names("left-") == other.names("left-") == {"1"}
    assert other.get("nothing") is None


def test_without_the_secret_nobody_gets_in(served: ServedBoard) -> None:
    with pytest.raises(ClusterError, match="it has another secret"):
        RemoteBoard(served.address, b"another", seconds=1)
    assert served.names("") == set()


def test_one_who_says_nothing_keeps_nobody_waiting(served: ServedBoard) -> None:
    with socket.create_connection(served.address):
        started = time.monotonic()
        assert RemoteBoard(served.address, SECRET, seconds=5).is_open()
        assert time.monotonic() - started < 2


def test_a_closed_board_is_told_from_a_silent_one(served: ServedBoard) -> None:
    board = RemoteBoard(served.address, SECRET, seconds=5)
    assert board.is_open()
    served.close()
    board.close()
    assert not board.is_open()
    assert board.get("anything") is None
    assert board.names("") == set()


@pytest.mark.parametrize(
    ("host", "says"),
    [("127.0.0.1", "refused: nothing listens there"), ("no-such-host.invalid", "is not known on")],
)
def test_a_board_that_cannot_be_reached_says_why(host: str, says: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(ClusterError, match=says):
            RemoteBoard((host, port), SECRET, seconds=0.1)
        assert says in (why_unreachable((host, port)) or "")


def test_an_absent_host_with_an_unknown_name_is_told_from_one_without_a_rank() -> None:
    assert "the name is not known" in why_absent("no-such-host.invalid", None)
    assert "is there a rank" in why_absent("localhost", None)
