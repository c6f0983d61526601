"""Failures of the simulator, put on record so that they can be repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from muster.engines.engine import SimulatorFailure
from muster.errors import SimulatorError, StorageError
from muster.experiment.schema import Experiment
from muster.runs.events import EventLog
from muster.runs.folder import RunFolder
from muster.simulators.building import Simulator
from muster.training.listening import Listener

SUDDEN_DEATH = "ProcessDied: the process before this one ended here, by the simulator's doing or a kill"


class FailureRecord:
    """Writes a file for each failure into a run's folder, with all that repeats it."""

    def __init__(self, experiment: Experiment, simulator: Simulator, folder: RunFolder) -> None:
        self._events = EventLog(folder)
        self._told: set[tuple[object, ...]] = set()
        self._rest = {
            "simulator": asdict(simulator),
            "squash": getattr(experiment.algorithm, "action_bounds", None) == "squash",
        }

    def add(self, failure: SimulatorFailure) -> str:
        """Record a failure; return what it was and how to repeat it."""
        file = self._events.add_failure({**asdict(failure), **self._rest})
        return f"{failure}\n    muster play --replay {file}"

    def explained(self, error: SimulatorError) -> SimulatorError:
        """Record the failure that an error carries, if the folder takes it; return the error that tells so too."""
        if not error.failures:
            return error
        try:
            told = "\n".join(self.add(failure) for failure in error.failures)
        except StorageError:
            return error
        return SimulatorError(f"the simulator failed: {told}\n\n{error.failures[-1].traceback}")

    def tell(self, failure: SimulatorFailure, listener: Listener) -> None:
        """Record a failure that will come again when its iteration ends, and tell of it."""
        self._told.add(_identity(failure))
        listener.failed(self.add(failure), failure.traceback)

    def add_all(self, failures: Sequence[SimulatorFailure], listener: Listener) -> None:
        """Record failures, and tell of each, unless that was done when it happened."""
        for failure in failures:
            if _identity(failure) in self._told:
                self._told.remove(_identity(failure))
            else:
                listener.failed(self.add(failure), failure.traceback)


def _identity(failure: SimulatorFailure) -> tuple[object, ...]:
    return failure.group, failure.env, failure.episode, failure.call
