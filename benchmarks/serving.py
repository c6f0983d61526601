"""The live page: how long the list of many runs and a page take, and what readers cost a run that trains."""

from __future__ import annotations

import asyncio
import http.client
import json
import multiprocessing
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from benchmarks.reading import _stretch
from muster import train
from muster.training import TrainOptions

RUNS, ROWS = 200, 10_000
READERS, WINDOW_SECONDS, WARM_UP_SECONDS = 50, 60.0, 20.0
ORDER = (True, False, False, True, True, False)
"""Windows with readers and without: in this order, a steady drift cancels out."""
ROUNDS = 5
WORKERS = 2
LOWEST_PRIORITY = 19


@dataclass(frozen=True)
class Server:
    """A `muster serve` and its cookie."""

    port: int
    cookie: str
    process: psutil.Process
    started: float
    """Seconds from the start of the process to its address."""


def run() -> str:
    """Measure both on this machine."""
    with tempfile.TemporaryDirectory() as name:
        pages = _measure_pages(Path(name) / "many")
        readers = _measure_readers(Path(name) / "live")
    return "\n".join(
        ["# The live page", "", f"`muster serve` on {os.cpu_count()} CPUs.", "", *pages, "", *readers, ""]
    )


def _measure_pages(folder: Path) -> list[str]:
    options = TrainOptions(runs_dir=folder)
    train("CartPole-v1", overrides={"name": "one", "resources.workers": 0, "stop.iterations": 60}, options=options)
    _stretch(folder / "one", folder / "run-000", ROWS)
    for number in range(1, RUNS):
        shutil.copytree(folder / "run-000", folder / f"run-{number:03d}", symlinks=True)
    shutil.rmtree(folder / "one")
    rows: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        with _served(folder) as server:
            first = _seconds(server, "/")
            time.sleep(3)
            timed = {
                "from the start of the process to its address": server.started,
                f"the list of {RUNS} runs, for the first time": first,
                "the list again, after three seconds": _seconds(server, "/"),
                f"a run's page ({ROWS:,} rows), for the first time": _seconds(server, "/runs/run-007"),
                "the same page again": _seconds(server, "/runs/run-007"),
            }
        for what, seconds in timed.items():
            rows.setdefault(what, []).append(seconds)
    table = [f"| {what} | {statistics.median(found):.2f} | {max(found):.2f} |" for what, found in rows.items()]
    return [
        f"Seconds, median and longest of {ROUNDS} servers, files in the cache.",
        "",
        "| what | median | longest |",
        "|---|---|---|",
        *table,
    ]


def _measure_readers(folder: Path) -> list[str]:
    command = ["train", "CartPole-v1", "--name", "live", "--runs-dir", str(folder), "--quiet"]
    command += ["--workers", str(WORKERS), "--stop-steps", "1e10"]
    trained = subprocess.Popen([sys.executable, "-m", "muster", *command], stdout=subprocess.DEVNULL)
    try:
        while not (folder / "live/metrics.csv").exists() or _steps(folder) == 0:
            time.sleep(0.2)
        time.sleep(WARM_UP_SECONDS)
        with _served(folder) as server:
            windows = [(has_readers, *_window(folder, server, has_readers=has_readers)) for has_readers in ORDER]
    finally:
        trained.send_signal(signal.SIGINT)
        trained.wait()
    speeds = {kind: [speed for has, speed, _ in windows if has is kind] for kind in (True, False)}
    shares = {kind: [share for has, _, share in windows if has is kind] for kind in (True, False)}
    ratio = statistics.mean(speeds[True]) / statistics.mean(speeds[False])
    return [
        f"Training with {WORKERS} workers while {READERS} readers look at its page or at the list, in windows of "
        f"{WINDOW_SECONDS:.0f} s. The readers run at the lowest priority on the same machine.",
        "",
        "| window | steps per second | the server's share of a CPU |",
        "|---|---|---|",
        *(f"| {'readers' if has else 'none'} | {speed:,.0f} | {share:.2%} |" for has, speed, share in windows),
        "",
        f"With readers, training had {ratio:.1%} of its speed without; the server took "
        f"{statistics.mean(shares[True]):.2%} of a CPU, and {statistics.mean(shares[False]):.2%} without.",
    ]


def _window(folder: Path, server: Server, *, has_readers: bool) -> tuple[float, float]:
    """Return the steps per second of training in a window, and the server's share of a CPU."""
    readers = multiprocessing.get_context("spawn").Process(target=_read, args=(server.port, server.cookie))
    if has_readers:
        readers.start()
        time.sleep(3)
    began, steps, cpu = time.perf_counter(), _steps(folder), _cpu(server.process)
    time.sleep(WINDOW_SECONDS)
    passed = time.perf_counter() - began
    found = ((_steps(folder) - steps) / passed, (_cpu(server.process) - cpu) / passed)
    if has_readers:
        readers.terminate()
        readers.join()
    return found


def _steps(folder: Path) -> int:
    return int(json.loads((folder / "live/status.json").read_text(encoding="utf-8"))["steps"])


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _read(port: int, cookie: str) -> None:
    os.nice(LOWEST_PRIORITY)

    async def all_readers() -> None:
        await asyncio.gather(*(_reader(port, cookie, is_list=bool(at % 2)) for at in range(READERS)))

    asyncio.run(all_readers())


async def _reader(port: int, cookie: str, *, is_list: bool) -> None:
    """Do what a browser does: open a page, then follow its events, and fetch what they say is new."""
    await _answer(port, cookie, "/" if is_list else "/runs/live")
    reader, _ = await _ask(port, cookie, "/events" if is_list else "/events/live")
    event = b""
    while line := await reader.readline():
        if line.startswith(b"event: "):
            event = line.strip()
        elif line.startswith(b"data: ") and event == b"event: content":
            await _answer(port, cookie, "/content/live")


async def _ask(port: int, cookie: str, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode())
    return reader, writer


async def _answer(port: int, cookie: str, path: str) -> bytes:
    reader, writer = await _ask(port, cookie, path)
    content = await reader.read()
    writer.close()
    return content


@contextmanager
def _served(folder: Path) -> Iterator[Server]:
    began = time.perf_counter()
    command = [sys.executable, "-m", "muster", "serve", str(folder), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        printed = json.loads(process.stdout.readline())
        started = time.perf_counter() - began
        port = urlsplit(printed["address"]).port or 0
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", f"/?token={printed['token']}")
        cookie = str(connection.getresponse().headers["set-cookie"]).partition(";")[0]
        try:
            yield Server(port, cookie, psutil.Process(process.pid), started)
        finally:
            process.send_signal(signal.SIGINT)


def _seconds(server: Server, path: str) -> float:
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", path, headers={"Cookie": server.cookie})
    answer = connection.getresponse()
    content = answer.read()
    assert answer.status == 200 and b"</html>" in content
    return time.perf_counter() - began
