"""A run that is followed until it has ended; its sender is replaced when the tracker fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

from muster.errors import TrackerError
from muster.jobs.folder import JobFolder
from muster.jobs.logs import Ending
from muster.jobs.places.record import find_elsewhere
from muster.runs.folder import RunFolder
from muster.runs.status import LIVE_STATES, Status, read_status
from muster.tracking.points import read_tracked_run
from muster.tracking.run_sender import RunSender
from muster.tracking.sending_lock import lock_sending
from muster.tracking.tracker import Tracker

_MAY_COME = (*LIVE_STATES, "queued", "unknown")


class FollowedRun:
    """One run on its way into a tracker."""

    def __init__(self, folder: RunFolder, name: str, tracker: Callable[[], Tracker], place: str = "") -> None:
        self.name = name
        self.where = ""
        self.sent = 0
        self.repeated = 0
        self._folder = folder
        self._tracker = tracker
        self._place = place
        self._lock: TextIO | None = None
        self._sender: RunSender | None = None
        job = JobFolder(folder.path.resolve())
        is_here = job.exists() and find_elsewhere(job.path, job.path.parent) is None
        self._jobs_ended = Ending(job) if is_here else None

    def is_over(self) -> bool:
        """Whether the run has ended, and none of its jobs will continue it."""
        status = read_status(self._folder.status) or Status("unknown")
        if status.shown_state in _MAY_COME:
            return False
        return self._jobs_ended is None or self._jobs_ended()

    def send_new(self) -> None:
        """Send what the tracker lacks.

        Raises:
            TrackerError: if it refuses or cannot be reached; the next time it is asked again what it has.
            RunLockedError: if another process sends the run there.
        """
        try:
            if self._sender is None:
                run = read_tracked_run(self._folder, self.name)
                # Before the first iteration, what identifies the run may not be recorded yet.
                if next(run.points(), None) is None:
                    return
                if self._lock is None:
                    self._lock = lock_sending(self.name, run.identity, self._place)
                self._sender = RunSender(run, self._tracker())
                self.where = self._sender.where
            self.sent += self._sender.send_new()
            self.repeated = self._sender.repeated
        except TrackerError:
            self._sender = None
            raise

    def end(self) -> None:
        """Say how the run is, and close what is open."""
        if self._sender is not None:
            self._sender.end()
        if self._lock is not None:
            self._lock.close()
