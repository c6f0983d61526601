"""The keeper of one host: it starts processes for the launcher and ends all of them when it goes, however it goes.

Run as a script of its own, with the standard library alone. The launcher holds the other end of a pipe; when that
closes (a normal end, a crash, kill -9), everything that was started here, and all that came of it, is ended by id.

Requests come as lines of JSON on the first descriptor given, answers go to the second:

    {"start": NAME, "command": [...], "environment": {...}, "log": PATH or null}   → {"started": NAME, "pid": ...}
    (with a log it is a service: deaf to signals, its output in the log)
    {"spare": FOLDER}                                      do not remove this one of the folders that were given
    {"logs": FOLDER, "copies": FOLDER or null}             at the end, copy the ends of these logs there
    {"signal": NUMBER, "name": NAME}                                             to the process group of NAME
    an exit of NAME                                                              → {"exited": NAME, "code": ...}
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

TERM_SECONDS = 0.5
POLL_SECONDS = 0.05
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2)
LARGEST_COPY, LARGEST_COPIES = 64 * 1024, 1024**2
_TELLING = ("gcs_server*", "raylet*", "dashboard_agent*", "runtime_env_agent*", "worker-*.err", "*.log", "*.err")
_PR_SET_CHILD_SUBREAPER = 36


class Keeper:
    """Holds the processes of one host."""

    def __init__(self, requests: int, answers: int, folders: list[str]) -> None:
        self._requests = requests
        self._answers = answers
        self._folders = folders
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._unread = b""
        self._logs: tuple[str, str | None] | None = None

    def run(self) -> None:
        """Serve the launcher until it is gone, then end everything."""
        try:
            while self._read_requests():
                self._report_exits()
        finally:
            logs = read_logs(Path(self._logs[0])) if self._logs and self._logs[1] else {}
            self._remove_folders()
            end_descendants()
            self._remove_folders()
            if self._logs and self._logs[1]:
                write_logs(Path(self._logs[1]), logs)

    def _remove_folders(self) -> None:
        """Remove the folders; also before the processes end, for a scheduler may kill this one at any moment."""
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)

    def _read_requests(self) -> bool:
        ready, _, _ = select.select([self._requests], [], [], POLL_SECONDS)
        if not ready:
            return True
        received = os.read(self._requests, 65536)
        *lines, self._unread = (self._unread + received).split(b"\n")
        for line in lines:
            self._handle(json.loads(line))
        return bool(received)

    def _handle(self, request: dict[str, Any]) -> None:
        if "start" in request:
            self._start(request)
        elif "spare" in request:
            self._folders.remove(request["spare"])
        elif "logs" in request:
            self._logs = request["logs"], request["copies"]
        elif (process := self._processes.get(request["name"])) and process.poll() is None:
            os.killpg(process.pid, request["signal"])

    def _start(self, request: dict[str, Any]) -> None:
        name, log = request["start"], request["log"]
        output = Path(log).open("ab") if log else None  # noqa: SIM115
        try:
            process = subprocess.Popen(
                request["command"],
                env=request["environment"],
                stdin=subprocess.DEVNULL if log else None,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=_block_signals if log else _take_signals,  # noqa: PLW1509
            )
        except OSError as error:
            self._answer({"exited": name, "code": 127, "error": f"{error.strerror}: {request['command'][0]}"})
            return
        self._processes[name] = process
        self._answer({"started": name, "pid": process.pid})

    def _report_exits(self) -> None:
        for name, process in list(self._processes.items()):
            if (code := process.poll()) is not None:
                del self._processes[name]
                self._answer({"exited": name, "code": code if code >= 0 else 128 - code})

    def _answer(self, answer: dict[str, Any]) -> None:
        try:
            os.write(self._answers, json.dumps(answer).encode() + b"\n")
        except BrokenPipeError:
            return


def read_logs(folder: Path) -> dict[str, bytes]:
    """Return the ends of Ray's logs, the most telling first, up to a limit for each and for all."""
    logs: dict[str, bytes] = {}
    left = LARGEST_COPIES
    for path in (path for kind in _TELLING for path in sorted(folder.glob(f"session_2*/logs/{kind}"))):
        try:
            size = path.stat().st_size
            if size and left > 0 and path.name not in logs and not path.is_symlink():
                with path.open("rb") as log:
                    log.seek(max(0, size - min(LARGEST_COPY, left)))
                    logs[path.name] = log.read(min(LARGEST_COPY, left))
                left -= len(logs[path.name])
        except OSError:
            continue
    return logs


def write_logs(folder: Path, logs: dict[str, bytes]) -> None:
    """Write logs into a folder, as far as there is room."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, log in logs.items():
            (folder / name).write_bytes(log)
    except OSError:
        return


def _block_signals() -> None:
    """Let a service outlive the signals that a scheduler sends to all: the command may still need it to save.

    But not ALRM: what runs inside of Ray may set alarms of its own.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _take_signals() -> None:
    """Let the command have the signals that the keeper ignores."""
    for number in (*SIGNALS, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)


def adopt_orphans() -> None:
    """Become the parent of all descendants whose own parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_descendants() -> None:
    """End all that descends from this process: ask first, then insist until nothing is left."""
    deadline = time.monotonic() + TERM_SECONDS
    _signal_all(signal.SIGTERM)
    while _reap() and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    while _reap():
        _signal_all(signal.SIGKILL)
        time.sleep(POLL_SECONDS)


def _signal_all(number: signal.Signals) -> None:
    for pid in _descendants():
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _reap() -> bool:
    """Collect the children that have ended; return whether any is left. Orphans become our children."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return False
    return True


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, unseen = [], [os.getpid()]
    while unseen:
        next_children = children.get(unseen.pop(), [])
        found += next_children
        unseen += next_children
    return found


def main() -> None:
    """Adopt orphans, leave the launcher's process group, and serve."""
    adopt_orphans()
    os.setsid()
    for number in (*SIGNALS, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    requests, answers = int(sys.argv[1]), int(sys.argv[2])
    for descriptor in (requests, answers):
        os.set_inheritable(descriptor, False)
    Keeper(requests, answers, sys.argv[3:]).run()


if __name__ == "__main__":
    main()
