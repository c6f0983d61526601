"""Stopping a run so that it saves first: a job through its scheduler, a run of this machine by a signal."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from muster.errors import JobError, RunLockedError
from muster.files.ownership import require_own
from muster.files.regular import is_regular
from muster.jobs.cancelling import cancel_runs
from muster.jobs.folder import JobFolder
from muster.jobs.places.model import find_place
from muster.jobs.places.record import find_elsewhere
from muster.runs.folder import RunFolder
from muster.runs.groups import SWEEP_FILE, SWEEP_RECORD
from muster.runs.lock import lock_holder, writers_kept_out
from muster.runs.status import heartbeat_is_fresh, read_status

SIGNALLED = "asked to save and stop"


def stop_run(folder: RunFolder, notice: Callable[[str], None]) -> str:
    """Let a run save and end, as `muster cancel` and Ctrl-C do; return what was done.

    Raises:
        JobError: if it cannot be stopped from here, with the reason.
        OwnershipError: if another user could have written what says how to stop it.
    """
    path = folder.path.resolve()
    if (elsewhere := find_elsewhere(path, path.parent)) is not None:
        return _said(find_place(elsewhere.record).cancel(elsewhere, notice))
    outer = path.parent
    if is_regular(outer / SWEEP_RECORD) or is_regular(outer / SWEEP_FILE):
        raise JobError(f"{path.name}: is a trial; the sweep {outer.name} is stopped as a whole")
    if JobFolder(path).exists():
        return _said(cancel_runs([JobFolder(path)], notice)[0])
    return _signal(folder)


def _said(was_left: bool) -> str:
    return "saved and cancelled" if was_left else "has ended already"


def _signal(folder: RunFolder) -> str:
    """Send the process of a run the signal of Ctrl-C, once: a second one would end it without saving."""
    status = read_status(folder.status)
    if status is None or not heartbeat_is_fresh(status):
        raise JobError(f"{folder.name}: is not running, as far as its folder says")
    if status.state == "saving":
        raise JobError(f"{folder.name}: is saving and ending already")
    if status.host != socket.gethostname():
        raise JobError(f"{folder.name}: runs on {status.host}; stop it there with Ctrl-C")
    # A process of ours that this run does not belong to must not be named here by anybody else.
    require_own([folder.path, folder.status, folder.lock], f"stopping {folder.name}", trust=False)
    if not _is_held_by(folder.lock, status.pid):
        raise JobError(f"{folder.name}: process {status.pid} does not hold the run's lock; stop it with Ctrl-C")
    try:
        os.kill(status.pid, signal.SIGINT)
    except OSError as error:
        raise JobError(f"{folder.name}: process {status.pid} cannot be stopped: {error.strerror}") from None
    return SIGNALLED


def _is_held_by(lock: Path, pid: int) -> bool:
    """Whether a process holds the lock of a run, by the file system and by what the lock says."""
    try:
        with writers_kept_out(lock):
            return False
    except RunLockedError:
        return pid > 1 and lock_holder(lock).get("pid") == pid
