"""A process of its own for a simulator, which may end it or hang in it without harm to this one."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NoReturn

import cloudpickle

from muster.errors import MusterError, SimulatorError
from muster.stepping.calls import Call
from muster.stepping.children import look_after_children
from muster.stepping.failures import Supervision
from muster.stepping.hang_watch import interrupt_or_end_on_hang
from muster.stepping.journal_reading import cause_of_death, read_last_calls, read_trace
from muster.stepping.live import FailedCallError, call_under_way
from muster.stepping.process_state import out_of_the_way
from muster.stepping.worker_signals import outlive_signals

POLL_SECONDS = 0.2
END_SECONDS = 2.0
_LENGTH = struct.Struct("<Q")


class ProcessDiedError(SimulatorError):
    """The process ended outside of any call of a simulator; the message says how."""


class ApartProcess:
    """Runs functions of simulators in another process, one at a time; started when it is needed, and again after a
    death.

    The functions take, besides their arguments, a keyword `journals`: the folder for what simulators are asked.
    """

    def __init__(self, step_timeout: float | None, supervision: Supervision | None = None) -> None:
        self._step_timeout = step_timeout
        self._supervision = supervision or Supervision(report=lambda _: None)
        self._process: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        self._folder = Path()
        self._is_busy = False

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function returns there.

        Raises:
            FailedCallError: if a call of a simulator failed, hung, or ended the process.
            MusterError: that the function raises.
            ProcessDiedError: if the process ended elsewhere.
            SamplingAbandonedError: when there is no time left.
        """
        link = self._connected()
        self._is_busy = True
        try:
            _send(link, cloudpickle.dumps((function, arguments)))
            kind, value = pickle.loads(self._answer(link))
        except (EOFError, OSError):
            raise self._death() from None
        except BaseException:
            self.close()
            raise
        self._is_busy = False
        if kind == "failure":
            raise FailedCallError(value)
        if kind == "error":
            raise value
        if kind == "crash":
            raise RuntimeError(f"in the simulator's process:\n\n{value}")
        return value

    def close(self) -> None:
        """End the process, at once if it is in the middle of a call."""
        process, self._process = self._process, None
        if process is None:
            return
        assert self._link is not None
        self._link.close()
        if self._is_busy:
            process.kill()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _connected(self) -> socket.socket:
        if self._process is None:
            ours, theirs = socket.socketpair()
            self._folder = Path(tempfile.mkdtemp(prefix="muster-"))
            # Nothing may be imported from the working folder before the search path is this process's.
            search = json.dumps([path for path in sys.path if path])
            start = f"import sys; sys.path[:] = {search}; from {__name__} import serve; serve({theirs.fileno()})"
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", start], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
                )
            self._link = ours
            # That it has ended already is noticed when its first answer is awaited.
            with suppress(OSError):
                _send(ours, pickle.dumps((sys.path, str(self._folder), self._step_timeout)))
        assert self._link is not None
        return self._link

    def _answer(self, link: socket.socket) -> bytes:
        """Wait for an answer while there is time; a process that the simulator started may keep the link open."""
        assert self._process is not None
        while not wait([link], POLL_SECONDS):
            self._supervision.require_time()
            if self._process.poll() is not None and not wait([link], 0):
                raise EOFError
        return _receive(link)

    def _death(self) -> Exception:
        """Describe how the process ended, and be ready for another."""
        process, folder = self._process, self._folder
        assert process is not None and self._link is not None
        self._link.close()
        try:
            code = process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        self._process, self._is_busy = None, False
        calls, trace = read_last_calls(folder), read_trace(folder)
        shutil.rmtree(folder, ignore_errors=True)
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"the process exited with code {code}"
        for last in calls:
            if last.call is not Call.NONE:
                return FailedCallError(last.failure_of_spare(cause_of_death(last.call, trace, how), trace))
        return ProcessDiedError(f"the simulator's process ended: {how}" + (f"\n\n{trace}" if trace else ""))


def serve(descriptor: int) -> None:
    """Answer calls until the other side closes the link; run in the process of its own."""
    outlive_signals()
    look_after_children()
    link = socket.socket(fileno=out_of_the_way(descriptor))
    sys.path[:], folder, step_timeout = pickle.loads(_receive(link))
    journals = Path(folder)
    threading.Thread(target=_end_with, args=(os.getppid(), journals), daemon=True).start()
    interrupt_or_end_on_hang(journals, step_timeout, call_under_way)
    while True:
        try:
            request = _receive(link)
        except (EOFError, OSError):
            _end(journals)
        _send(link, _answered(request, journals))


def _answered(request: bytes, journals: Path) -> bytes:
    answer: tuple[str, Any]
    try:
        function, arguments = pickle.loads(request)
        answer = ("result", function(*arguments, journals=journals))
        return bytes(cloudpickle.dumps(answer))
    except FailedCallError as error:
        answer = ("failure", error.failure)
    except MusterError as error:
        answer = ("error", error)
    except BaseException:
        answer = ("crash", traceback.format_exc())
    return bytes(cloudpickle.dumps(answer))


def _end_with(parent: int, journals: Path) -> None:
    """End this process when its parent has ended."""
    while os.getppid() == parent:
        time.sleep(POLL_SECONDS)
    _end(journals)


def _end(journals: Path) -> NoReturn:
    shutil.rmtree(journals, ignore_errors=True)
    os._exit(0)


def _send(link: socket.socket, message: bytes) -> None:
    link.sendall(_LENGTH.pack(len(message)) + message)


def _receive(link: socket.socket) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(link, _LENGTH.size))
    return _exactly(link, length)


def _exactly(link: socket.socket, length: int) -> bytes:
    received = bytearray()
    while len(received) < length:
        part = link.recv(min(length - len(received), 1 << 20))
        if not part:
            raise EOFError
        received += part
    return bytes(received)
