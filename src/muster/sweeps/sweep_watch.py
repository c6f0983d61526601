"""How a trial hears that its sweep has to end, also while an iteration is under way."""

from __future__ import annotations

import time

from muster.sweeps.folder import SweepFolder
from muster.training.interruption import Interruption, InterruptionWatch

LOOK_SECONDS = 0.5


class SweepWatch(InterruptionWatch):
    """Looks into the sweep's folder; signals are the business of the process that leads the sweep."""

    def __init__(self, sweep: SweepFolder) -> None:
        super().__init__()
        self._sweep = sweep
        self._next_look = 0.0

    def listen(self) -> None:
        """Leave the signals as they are."""

    def pending(self) -> Interruption | None:
        self._look()
        return super().pending()

    def must_abandon(self) -> bool:
        self._look()
        return super().must_abandon()

    def _look(self) -> None:
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + LOOK_SECONDS
        if interruption := self._sweep.interruption():
            self.interrupt(interruption)
