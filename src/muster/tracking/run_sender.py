"""Sending one run to one tracker: what it lacks now, then what is new, each value once."""

from __future__ import annotations

from itertools import islice

from muster.tracking.points import TrackedRun, ending_of
from muster.tracking.tracker import Lacking, Tracker

AT_ONCE = 200
"""Points that are handed to a tracker together, and then noted as sent."""


class RunSender:
    """Sends a run's points to a tracker. It keeps nothing: at each beginning, the tracker is asked what it has.

    So whatever ended an earlier sender, in the middle of a request too, nothing is sent twice or left out.
    """

    def __init__(self, run: TrackedRun, tracker: Tracker) -> None:
        self._run = run
        self._tracker = tracker
        self.where = tracker.begin(run)
        self._lacking = Lacking(tracker.known())
        self.sent = 0
        """Points that this sender has sent."""

    @property
    def repeated(self) -> int:
        """Points that were trained again at other steps since they were sent."""
        return len(self._lacking.repeated)

    def send_new(self) -> int:
        """Send what the tracker lacks; return how many points that were.

        Raises:
            TrackerError: if it refuses or cannot be reached; a new sender continues.
        """
        points = iter(self._lacking.of(self._run.points()))
        before = self.sent
        while some := list(islice(points, AT_ONCE)):
            self._tracker.send(some)
            self._lacking.note(some)
            self.sent += len(some)
        return self.sent - before

    def end(self) -> None:
        """Say how the run is, and close what is open."""
        self._tracker.end(ending_of(self._run.status()))
