"""The head's board and the ranks of one host: who gets in, what crosses, what a lost head looks like."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from muster.clusters.launching.board_client import BoardClient, HeadGoneError
from muster.clusters.launching.board_server import MOST_STRANGERS, BoardServer
from muster.clusters.launching.board_topics import HeadState, Topic
from muster.clusters.launching.causes import why_absent, why_unreachable
from muster.clusters.launching.local_ranks import LocalLeader, RankCard, follow
from muster.clusters.launching.tls import client_context
from muster.errors import ClusterError
from tests.commands import wait_until

SECRET = b"of this launch"


@pytest.fixture
def board() -> Iterator[BoardServer]:
    server = BoardServer("127.0.0.1", 0, SECRET)
    yield server
    server.close()


def client(board: BoardServer, rank: int = 1, secret: bytes = SECRET, host: str = "") -> BoardClient:
    made = BoardClient(board.address, secret, rank, host)
    made.connect(5, lambda: False)
    return made


def test_the_head_reads_what_hosts_write_and_they_follow_its_state(board: BoardServer) -> None:
    one, two = client(board, 1), client(board, 2)
    one.put(Topic.HOST, {"host": "a"})
    two.put(Topic.HOST, {"host": "b"})
    assert board.all_of(Topic.HOST) == {1: {"host": "a"}, 2: {"host": "b"}}
    two.put(Topic.SIGNALS, [15], number=7)
    assert board.take_all_of(Topic.SIGNALS) == [[15]]
    assert board.take_all_of(Topic.SIGNALS) == []
    assert one.state(0.1) == HeadState(version=0)
    threading.Timer(0.3, lambda: board.announce(done=7)).start()
    started = time.monotonic()
    assert one.state(10) == HeadState(version=1, done=7)
    assert time.monotonic() - started < 5
    assert board.is_connected(1)
    assert not board.is_connected(2)
    one.close()
    wait_until(lambda: not board.is_connected(1), "the closed connection to be noticed")


def test_a_host_reads_only_what_is_handed_out_to_it(board: BoardServer) -> None:
    board.hand_out({"a": {"cpus": 4}, "b": {"cpus": 2}})
    assert client(board, 1, host="b").state(0.1) == HeadState(version=0, own={"cpus": 2})
    assert client(board, 2, host="c").state(0.1) == HeadState(version=0)


def test_without_the_secret_nobody_gets_in(board: BoardServer) -> None:
    with pytest.raises(ClusterError, match="it has another secret"):
        client(board, secret=b"another")
    with (
        suppress(ssl.SSLError, ConnectionError),
        socket.create_connection(board.address) as plain,
        ssl._create_unverified_context().wrap_socket(plain) as anyone,
    ):
        anyone.sendall(b'{"put": "host", "number": 9, "value": 1}\n')
        assert anyone.recv(100) == b""
    assert board.all_of(Topic.HOST) == {}


def test_what_crosses_cannot_be_read_on_the_way(board: BoardServer) -> None:
    board.announce(token="the token of Ray")
    seen = bytearray()
    relay = socket.create_server(("127.0.0.1", 0))

    def pass_on() -> None:
        near, _ = relay.accept()
        far = socket.create_connection(board.address)

        def copy(source: socket.socket, target: socket.socket) -> None:
            while part := source.recv(65536):
                seen.extend(part)
                target.sendall(part)

        threading.Thread(target=copy, args=(far, near), daemon=True).start()
        copy(near, far)

    threading.Thread(target=pass_on, daemon=True).start()
    through = BoardClient(relay.getsockname(), SECRET, 1)
    state = through.state(1)
    assert state is not None
    assert state.token == "the token of Ray"
    assert len(seen) > 500
    assert b"token" not in seen
    relay.close()


def test_strangers_are_few_at_a_time_and_keep_nobody_out(board: BoardServer) -> None:
    threads = threading.active_count()
    with ExitStack() as held:
        for _ in range(3 * MOST_STRANGERS):
            held.enter_context(socket.create_connection(board.address))
            assert len(board._strangers) <= MOST_STRANGERS
        started = time.monotonic()
        assert client(board).state(0.1) is not None
        assert time.monotonic() - started < 5
        assert threading.active_count() == threads
    wait_until(lambda: not board._strangers, "strangers to be forgotten")


def test_a_message_without_an_end_does_not_fill_the_memory(board: BoardServer) -> None:
    with (
        pytest.raises((ssl.SSLError, ConnectionError)),
        socket.create_connection(board.address) as plain,
        client_context(SECRET).wrap_socket(plain) as known,
    ):
        for _ in range(100):
            known.sendall(b"x" * 65536)


def test_a_head_that_is_gone_is_told_from_a_silent_one(board: BoardServer) -> None:
    other = client(board)
    assert other.state(0.1) is not None
    board.close()
    with pytest.raises(HeadGoneError):
        for _ in range(3):
            other.state(0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        deaf = BoardClient(silent.getsockname(), SECRET, 1)
        assert deaf.state(0.1, lambda: True) is None
    board.__init__("127.0.0.1", 0, SECRET)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("host", "says"),
    [("127.0.0.1", "refused: nothing listens there"), ("no-such-host.invalid", "is not known on")],
)
def test_a_board_that_cannot_be_reached_says_why(host: str, says: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(ClusterError, match=says):
            BoardClient((host, port), SECRET, 1).connect(0.1, lambda: False)
        assert says in (why_unreachable((host, port)) or "")


def test_an_absent_host_with_an_unknown_name_is_told_from_one_without_a_rank() -> None:
    assert "the name is not known" in why_absent("no-such-host.invalid", None)
    assert "no rank has checked in" in why_absent("localhost", None)


def test_one_rank_leads_a_host_and_the_others_wait_for_its_word() -> None:
    secret = os.urandom(16)
    leader = LocalLeader(secret, RankCard(0, [0], None))
    with pytest.raises(OSError, match="in use"):
        LocalLeader(secret, RankCard(1, [1], None))
    codes: list[int | None] = []
    signals = [[], [signal.SIGTERM]]
    waiting = threading.Thread(
        target=lambda: codes.append(
            follow(secret, RankCard(1, [1], ["2"]), 5, lambda: signals.pop() if signals else [])
        )
    )
    waiting.start()
    wait_until(lambda: len(leader.cards()) == 2, "the other rank's card")
    assert leader.cards()[1] == RankCard(1, [1], ["2"])
    wait_until(lambda: leader.take_signals() == [signal.SIGTERM], "the signal that it has received")
    leader.dismiss(7)
    waiting.join(5)
    assert codes == [7]


def test_a_rank_without_a_leader_does_not_wait_for_ever() -> None:
    assert follow(os.urandom(16), RankCard(1, [1], None), 0.2, list) is None
    assert follow(os.urandom(16), RankCard(1, [1], None), 60, lambda: [signal.SIGTERM]) is None
