"""What the learner asks of an algorithm, whichever it is."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from muster.engines.builtin.learning.adam import Adam
from muster.engines.builtin.learning.batch import Batch
from muster.engines.builtin.learning.metrics import Metrics
from muster.engines.builtin.networks.protocol import Networks

Array = NDArray[Any]

OnProgress = Callable[[float, Array], None]
"""Called during an update with the fraction of it that is done, and the parameters at that moment."""


def ignore_progress(fraction: float, parameters: Array) -> None:
    """Do nothing during an update."""


@dataclass
class TrainState:
    """What an update changes, in place."""

    parameters: Array
    optimizer: Adam
    rng: np.random.Generator

    def copy(self) -> TrainState:
        """Return a state that can change on its own."""
        return TrainState(self.parameters.copy(), self.optimizer.copy(), deepcopy(self.rng))


class Algorithm(Protocol):
    """An algorithm with the settings of one experiment."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The columns that it adds to the record."""

    @property
    def trains_torch(self) -> bool:
        """Whether it trains torch networks, too: it needs no derivatives but gradients."""

    def optimizer(self, networks: Networks) -> Adam:
        """Return the optimiser before the first update."""

    def update(
        self, networks: Networks, state: TrainState, batch: Batch, fraction_done: float, on_progress: OnProgress
    ) -> Metrics:
        """Learn from a batch, in place; return the metrics. `fraction_done` is how much of the run is over.

        Raises:
            NonFiniteUpdateError: if a gradient is not finite.
        """
