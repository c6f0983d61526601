"""The processes of a run's own Ray: out of reach of the run's signals, and ended with the run however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from muster.clusters import ray_guard
from muster.ray_private import started_by

SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2}
END_SECONDS = 5.0
_ESSENTIAL = ("gcs_server", "raylet")


class RayProcesses:
    """Starts Ray's processes each in a session of its own, with signals blocked, and has a guard end them.

    A terminal, `timeout` and schedulers signal a whole process group or job. Ray would end before the run that
    needs it to save.
    """

    def __init__(self, folder: Path) -> None:
        reading, self._pipe = os.pipe()
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", ray_guard.__file__, str(reading), str(folder)],
            pass_fds=(reading,),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_block_signals,  # noqa: PLW1509
        )
        os.close(reading)
        self._started: list[subprocess.Popen[bytes]] = []
        self._essential: list[subprocess.Popen[bytes]] = []

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Have what Ray starts in this block started that way."""
        with started_by(self._start):
            yield

    def _start(
        self, popen: Callable[..., Any], *arguments: Any, preexec_fn: Callable[[], None] | None, **options: Any
    ) -> Any:
        def prepare() -> None:
            if preexec_fn is not None:
                preexec_fn()
            _block_signals()

        process = popen(*arguments, preexec_fn=prepare, start_new_session=True, **options)
        self._started.append(process)
        if isinstance(process.args, list) and Path(process.args[0]).name in _ESSENTIAL:
            self._essential.append(process)
        with suppress(OSError):
            os.write(self._pipe, f"{process.pid}\n".encode())
        return process

    def are_lost(self) -> bool:
        """Whether a process that Ray cannot do without has ended."""
        return any(process.poll() is not None for process in self._essential)

    def end(self) -> None:
        """Kill all of them, wait until they are gone, and remove their folder; does nothing a second time."""
        pipe, self._pipe = self._pipe, -1
        if pipe < 0:
            return
        os.close(pipe)
        for process in [self._guard, *self._started]:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=END_SECONDS)


def _block_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
