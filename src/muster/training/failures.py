"""Failures of the simulator, put on record so that they can be repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from muster.engines.engine import SimulatorFailure
from muster.runs.events import EventLog
from muster.simulators.building import Simulator
from muster.training.listening import Listener

SUDDEN_DEATH = "ProcessDied: the process before this one ended here, by the simulator's doing or a kill"


def record_failures(
    failures: Sequence[SimulatorFailure], simulator: Simulator, events: EventLog, listener: Listener
) -> None:
    """Write a file for each failure, with all that repeats it, and tell whoever watches."""
    for failure in failures:
        file = events.add_failure({**asdict(failure), "simulator": asdict(simulator)})
        listener.failed(f"{failure}\n    muster play --replay {file}", failure.traceback)
