"""What a run tells to whoever watches it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from muster.experiment.schema import Experiment
from muster.stepping.evaluation import Evaluation
from muster.training.progress import Progress


@dataclass(frozen=True)
class RunStart:
    """How a run starts."""

    run: Path
    experiment: Experiment
    num_workers: int
    num_simulators: int
    batch_size: int
    from_iteration: int
    can_be_filmed: bool = False


class Listener(Protocol):
    """Is told what happens in a run."""

    def started(self, start: RunStart) -> None:
        """The first iteration is about to begin."""

    def iterated(self, row: dict[str, Any], progress: Progress) -> None:
        """An iteration was recorded."""

    def evaluated(self, iteration: int, result: Evaluation) -> None:
        """The policy of an iteration was evaluated."""

    def noticed(self, message: str) -> None:
        """Something is worth knowing."""

    def failed(self, error: str, traceback: str) -> None:
        """The simulator failed."""


class Silence:
    """A listener that ignores everything: the base of your own, which overrides what it wants to hear."""

    def started(self, start: RunStart) -> None:
        """Ignore."""

    def iterated(self, row: dict[str, Any], progress: Progress) -> None:
        """Ignore."""

    def evaluated(self, iteration: int, result: Evaluation) -> None:
        """Ignore."""

    def noticed(self, message: str) -> None:
        """Ignore."""

    def failed(self, error: str, traceback: str) -> None:
        """Ignore."""
