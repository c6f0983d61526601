"""What a sweep tells to whoever watches it."""

from __future__ import annotations

from typing import Protocol

from muster.experiment.schema import Experiment
from muster.sweeps.record import SweepRecord


class SweepListener(Protocol):
    """Is told what happens in a sweep."""

    def started(self, record: SweepRecord, experiment: Experiment) -> None:
        """The first trial is about to begin."""

    def changed(self, record: SweepRecord, trial: str) -> None:
        """A trial has another state, or another row."""

    def noticed(self, message: str) -> None:
        """Something is worth knowing."""

    def failed(self, trial: str, details: str) -> None:
        """A trial failed."""


class SilentSweep:
    """A listener that ignores everything."""

    def started(self, record: SweepRecord, experiment: Experiment) -> None:
        """Ignore."""

    def changed(self, record: SweepRecord, trial: str) -> None:
        """Ignore."""

    def noticed(self, message: str) -> None:
        """Ignore."""

    def failed(self, trial: str, details: str) -> None:
        """Ignore."""
