"""A thousand ranks that find their head, on one machine: how long it takes, and what each of them costs.

The ranks are simulated, 50 to a process, each with the very client that a rank uses; the head's board is the real
one. `strace` counts what a process asks of the file system, while the ranks find the head and while they wait.
"""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil

from muster.clusters.launching.board_client import BoardClient, HeadGoneError
from muster.clusters.launching.board_server import Address, BoardServer
from muster.clusters.launching.board_topics import Topic
from muster.clusters.launching.local_ranks import LocalLeader, RankCard, follow
from muster.clusters.launching.rendezvous import MeetingFolder, await_board
from muster.clusters.launching.tls import client_context

RANKS = 1000
RANKS_PER_PROCESS = 50
WAITING_SECONDS = 20.0
_FILE_CALLS = re.compile(
    r"^(open|openat|stat|lstat|newfstatat|statx|access|mkdir|mkdirat|unlink|rename|readlink)\("
)


def run() -> str:
    """Let the ranks meet by a folder, at an address, and on one host."""
    rows = [_measured("by a shared folder", "folder"), _measured("at an address", "address")]
    rows.append(_measured("on one host, by its leader", "local"))
    return "\n".join(
        [
            "# A thousand ranks find their head",
            "",
            f"{RANKS} simulated ranks on one machine of 2 cores, {RANKS_PER_PROCESS} to a process, and the head's "
            "own board; each rank of the first two rows stands for a host with one rank. File calls are those of "
            f"one process with its {RANKS_PER_PROCESS} ranks, by strace, in the meeting's folder: until all have "
            f"checked in, and in {WAITING_SECONDS:g} s of waiting after that.",
            "",
            "| the ranks meet | all checked in after | file calls a rank, bring-up | waiting, a second "
            "| the head's threads | its memory, more | its CPU, waiting | told of the end after |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _measured(title: str, way: str) -> str:
    with tempfile.TemporaryDirectory() as place:
        folder = MeetingFolder(Path(place) / "meeting")
        secret = folder.open() if way == "folder" else secrets.token_bytes(32)
        own, before = psutil.Process(), psutil.Process().memory_info().rss
        threads = threading.active_count()
        ranks = [_start(place, way, secret, first) for first in range(1, RANKS + 1, RANKS_PER_PROCESS)]
        trace = Path(place) / "trace"
        head = _LocalHead(secret) if way == "local" else _BoardHead(secret)
        tracer = subprocess.Popen(
            ["strace", "-f", "-q", "-tt", "-e", "trace=file", "-o", str(trace), "-p", str(ranks[0].pid)],
            stderr=subprocess.DEVNULL,
        )
        for process in ranks:
            assert process.stdout is not None
            process.stdout.readline()
        started = time.perf_counter()
        for process in ranks:
            assert process.stdin is not None
            process.stdin.write(json.dumps(head.address) + "\n")
            process.stdin.flush()
        if way == "folder":
            folder.publish(head.address, "head")
        while head.num_here() < RANKS:
            time.sleep(0.05)
        here = time.perf_counter() - started
        bring_up = _calls(trace, place)
        used = sum(own.cpu_times()[:2])
        time.sleep(WAITING_SECONDS)
        cpu = (sum(own.cpu_times()[:2]) - used) / WAITING_SECONDS
        waiting = _calls(trace, place) - bring_up
        memory = (own.memory_info().rss - before) / 1024**2
        num_threads = threading.active_count() - threads
        ended = time.perf_counter()
        head.end()
        for process in ranks:
            process.wait(60)
        told = time.perf_counter() - ended
        tracer.wait(10)
    a_second = waiting / RANKS_PER_PROCESS / WAITING_SECONDS
    return (
        f"| {title} | {here:.1f} s | {bring_up / RANKS_PER_PROCESS:.1f} | {a_second:.2f} "
        f"| {num_threads} | {memory:.0f} MiB | {100 * cpu:.0f} % | {told:.1f} s |"
    )


class _BoardHead:
    """The head of ranks on as many hosts."""

    def __init__(self, secret: bytes) -> None:
        self._board = BoardServer("127.0.0.1", 0, secret)
        self.address: Address = self._board.address

    def num_here(self) -> int:
        return len(self._board.all_of(Topic.HOST))

    def end(self) -> None:
        self._board.announce(done=0)
        time.sleep(2)
        self._board.close()


class _LocalHead:
    """The leader of ranks on one host."""

    address: Address = ("", 0)

    def __init__(self, secret: bytes) -> None:
        self._leader = LocalLeader(secret, RankCard(0, [0], None))

    def num_here(self) -> int:
        return len(self._leader.cards()) - 1

    def end(self) -> None:
        self._leader.dismiss(0)


def _start(place: str, way: str, secret: bytes, first: int) -> subprocess.Popen[str]:
    arguments = [place, way, secret.hex(), str(first)]
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.rendezvous", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _calls(trace: Path, place: str) -> int:
    """Count the calls that name something in the meeting's folder."""
    lines = trace.read_text(errors="replace").splitlines() if trace.exists() else []
    return sum(place in line and _FILE_CALLS.search(line.split(None, 2)[-1]) is not None for line in lines)


def _be_ranks(place: str, way: str, secret: bytes, first: int) -> None:
    """Be several ranks of the launch, each in a thread."""
    client_context(secret)  # ranks on hosts of their own would make it at the same time
    print("ready", flush=True)
    given = json.loads(sys.stdin.readline())
    threads = [
        threading.Thread(target=_be_rank, args=(place, way, secret, rank, given))
        for rank in range(first, first + RANKS_PER_PROCESS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _be_rank(place: str, way: str, secret: bytes, rank: int, given: list[object]) -> None:
    if way == "local":
        follow(secret, RankCard(rank, [rank], None), 60, list)
        return
    address: Address = (str(given[0]), int(str(given[1])))
    if way == "folder":
        folder = MeetingFolder(Path(place) / "meeting")
        secret = folder.open()
        found = await_board(folder, 60, lambda: False)
        assert found is not None
        address = found[0]
    board = BoardClient(address, secret, rank)
    board.connect(60, lambda: False)
    board.put(Topic.HOST, {"rank": rank}, seconds=60)
    state = None
    with suppress(HeadGoneError):
        while state is None or state.done is None:
            state = board.state(5)


if __name__ == "__main__":
    _be_ranks(sys.argv[1], sys.argv[2], bytes.fromhex(sys.argv[3]), int(sys.argv[4]))
