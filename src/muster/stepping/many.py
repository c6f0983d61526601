"""Many simulators stepped at once, arrays in and arrays out: what sampling knows of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray

from muster.simulators.describing import Description
from muster.simulators.simulator import Simulator
from muster.stepping.info_metrics import Episode
from muster.stepping.journal import Journal

Array = NDArray[Any]


@dataclass(frozen=True)
class SteppingSettings:
    """What some simulators are built from, judged by and measured by; plain data.

    `metrics` are names in `info`, each with how its numbers become one for an episode.
    """

    simulator: Simulator
    observations: Description
    actions: Description
    num_envs: int
    seed: int
    restart_every: int = 0
    check_bounds: bool = True
    step_timeout: float | None = None
    metrics: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Events:
    """What happened in one step besides rewards; valid until the next step.

    `ended` are simulators whose episode is over, whichever way; `dropped` those whose episode so far must not be
    learned from; `skipped` those for which this was no step. `finals` are the last observations of episodes that a
    time limit ended, to bootstrap from; `episodes` are those that came to their end.
    """

    ended: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    finals: list[tuple[int, Array]] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)

    def clear(self) -> None:
        """Forget all, for the next step."""
        self.ended.clear()
        self.finals.clear()
        self.episodes.clear()
        if self.dropped or self.skipped:
            self.dropped.clear()
            self.skipped.clear()


class Simulators(Protocol):
    """A fixed number of simulators, each with an episode under way."""

    @property
    def rows(self) -> Array:
        """Their current observations, encoded."""

    @property
    def masks(self) -> Array:
        """Which discrete actions are allowed; without columns if none was ever forbidden."""

    @property
    def episodes(self) -> list[int]:
        """The numbers of the episodes under way."""

    @property
    def journal(self) -> Journal:
        """What the simulators are asked."""

    def start(self) -> None:
        """Build and reset all.

        Raises:
            SimulatorError: when that fails again and again; so does `step`.
        """

    def step(self, actions: Array, rewards: Array, terminated: Array, ended: Array) -> Events | None:
        """Give each its row of actions, write what came of it into the other three; episodes that end begin anew.

        Returns what else happened, if anything did.
        """

    def configure(self, scheduled: Mapping[str, Any]) -> None:
        """Take new values of the scheduled keys of the configuration; each episode keeps those it began with."""

    def state(self) -> Any:
        """Return what `restore` continues from.

        Raises:
            Exception: if the simulators do not pickle.
        """

    def restore(self, state: Any) -> None:
        """Continue from a saved state."""

    def close(self) -> None:
        """Close all."""
