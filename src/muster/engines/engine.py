"""What training asks of an engine, and what engines tell it: the same for every engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import gymnasium

    from muster.experiment import LoadedExperiment
    from muster.policies import Policy
    from muster.simulators.building import Simulator

MAX_FAILURES_IN_A_ROW = 3
MAX_LOSSES_IN_A_ROW = 3
REWARD_CLIP = 10.0


Tell = Callable[["SimulatorFailure"], None]
"""Is told of failures as they happen."""

Interrupted = Callable[[], bool]
"""Whether to give up what is under way; raises RayLostError when Ray has ended."""


class SamplingAbandonedError(Exception):
    """Sampling was given up in the middle, because the run must save now."""


@dataclass(frozen=True)
class SimulatorFailure:
    """One failure of the user's simulator: where, when, its own traceback, and what repeats it.

    `step` counts the steps done before; `index` is the simulator's number in the run; `actions` are rows of the
    policy's choices, the one that failed last, or None if they are not known. A simulator beside those that are
    trained in has neither group nor number, and `actions` are its own, made plain.
    """

    group: int | None
    env: int | None
    episode: int
    seed: int
    step: int
    error: str
    traceback: str
    call: str = "step"
    index: int | None = 0
    actions: list[Any] | None = None

    def __str__(self) -> str:
        place = "" if self.group is None else f"group {self.group}, simulator {self.env}, "
        return f"{self.error} (in {self.call}: {place}episode {self.episode}, seed {self.seed}, step {self.step})"


@dataclass(frozen=True)
class Iteration:
    """What one iteration did: steps, finished episodes, failures, the learner's figures and the time it took."""

    steps: int
    episodes: list[tuple[float, int]]
    failures: list[SimulatorFailure]
    workers_lost: int
    metrics: dict[str, float | None]
    sample_seconds: float
    learn_seconds: float
    wait_seconds: float


class Engine(Protocol):
    """Trains one experiment."""

    batch_size: int
    """Steps of an iteration."""

    episodes_restarted: bool
    """Whether new episodes began in spite of a checkpoint."""

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The columns that the algorithm adds to the record."""

    def iterate(self, fraction_done: float, interrupted: Interrupted, tell: Tell) -> Iteration:
        """Sample and learn; the state to be saved changes only if all of it succeeds.

        Failures that can be told before it ends are told then, and returned as all others are.

        Raises:
            SimulatorError, SamplingAbandonedError, NonFiniteUpdateError, RayLostError: the state is as it was
                before.
        """

    def policy(self) -> Policy:
        """Return the policy as it is now."""

    def save(self, folder: Path, *, simulators: bool) -> str | None:
        """Write policy and complete training state into a folder; return why episodes will restart, if news.

        Without the simulators it needs nothing but this process, and may be called from another thread.
        """

    def close(self) -> list[SimulatorFailure]:
        """End what was started; return what failed in that."""


@dataclass(frozen=True)
class Needs:
    """What an engine asks of Ray; it may ask for more CPUs than the machine has only if it shares them."""

    cpus: int
    gpus: float = 0.0
    shares_cpus: bool = True


@dataclass(frozen=True)
class Request:
    """What an engine plans with: the experiment, its simulator (once built, to look at), and who wants to know."""

    loaded: LoadedExperiment
    simulator: Simulator
    env: gymnasium.Env[Any, Any]
    num_workers: int
    resumes: bool
    notice: Callable[[str], None]


class Plan(Protocol):
    """How an engine will train an experiment: settled and checked before anything is made."""

    @property
    def loaded(self) -> LoadedExperiment:
        """The experiment, with what the engine settled."""

    @property
    def num_workers(self) -> int:
        """Processes that step simulators; 0: this one."""

    @property
    def num_simulators(self) -> int:
        """Simulators in all of them."""

    @property
    def needs(self) -> Needs | None:
        """What Ray must have; None if it is not needed."""

    def build(self, checkpoint: Path | None, weights_from: Path | None, interrupted: Interrupted) -> Engine:
        """Build the engine, on the Ray that is there."""
