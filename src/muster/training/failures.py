"""Failures of the simulator, put on record so that they can be repeated."""

from __future__ import annotations

from dataclasses import asdict

from muster.engines.engine import rules_of
from muster.errors import SimulatorError, StorageError
from muster.experiment.schema import Experiment
from muster.runs.events import EventLog
from muster.runs.folder import RunFolder
from muster.simulators.simulator import Simulator
from muster.stepping.failures import SimulatorFailure, simulator_error

SUDDEN_DEATH = (
    "ProcessDied: the previous process ended during this call: the simulator crashed it, or it was killed"
)


class FailureRecord:
    """Writes a file for each failure into a run's folder, with all that repeats it."""

    def __init__(
        self, experiment: Experiment, simulator: Simulator, folder: RunFolder, shown: RunFolder | None = None
    ) -> None:
        """Write to a folder, which messages name as `shown`, if that is given."""
        self._events = EventLog(folder)
        self._shown = shown or folder
        self._rest = {
            "simulator": asdict(simulator),
            "rules": asdict(rules_of(experiment)),
        }

    def add(self, failure: SimulatorFailure) -> str:
        """Record a failure; return what it was and how to repeat it, if that can be."""
        file = self._events.add_failure({**asdict(failure), **self._rest})
        if failure.actions is None:
            return f"{failure}\n    recorded in {file}; it cannot be replayed, since its actions are not known"
        return f"{failure}\n    muster play --replay {self._shown.failures / file.name}"

    def error(self, failure: SimulatorFailure) -> SimulatorError:
        """Record a failure, if the folder takes it; return the error that reports it."""
        try:
            message = self.add(failure)
        except StorageError:
            message = str(failure)
        return simulator_error(f"the simulator failed: {message}", failure)
