"""What training asks of an engine, and what engines report: the same for every engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from muster.stepping.failures import Supervision
from muster.stepping.hang_watch import Hung, end_process
from muster.stepping.info_metrics import Episode
from muster.stepping.rules import Rules

if TYPE_CHECKING:
    from muster.experiment import LoadedExperiment
    from muster.experiment.schema import Experiment
    from muster.policies import Policy
    from muster.simulators.simulator import Simulator
    from muster.stepping.survey import Survey

MAX_LOSSES_IN_A_ROW = 3
REWARD_CLIP = 10.0
_IMAGE_DIMENSIONS = {"builtin": (2, 3), "rllib": (3,)}


@dataclass(frozen=True)
class Iteration:
    """What one iteration did: steps, finished episodes, the learner's metrics and the time it took."""

    steps: int
    episodes: list[Episode]
    workers_lost: int
    metrics: dict[str, float | None]
    sample_seconds: float
    learn_seconds: float
    wait_seconds: float


def journals_beside(simulator: Simulator) -> Path:
    """Return where journals of a run's own process are: in its folder, beside those of its simulators."""
    return Path(simulator.folder).parent / "journals"


def image_dimensions(experiment: Experiment) -> tuple[int, ...]:
    """Return how many dimensions a uint8 Box may have that the experiment's engine reads as an image."""
    return _IMAGE_DIMENSIONS[experiment.algorithm.engine] if experiment.model.images else ()


def rules_of(experiment: Experiment) -> Rules:
    """Return by what rules an experiment's simulators are judged."""
    return Rules(experiment.env.check_bounds, experiment.env.step_timeout, image_dimensions(experiment))


@dataclass(frozen=True)
class RunSupervision(Supervision):
    """Who looks after a run: also what to do when a simulator hangs in the run's own process for good."""

    hung: Hung = end_process


class Engine(Protocol):
    """Trains one experiment."""

    batch_size: int
    """Steps of an iteration."""

    episodes_restarted: bool
    """Whether new episodes began in spite of a checkpoint."""

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The columns that the algorithm adds to the record."""

    def iterate(self, fraction_done: float, scheduled: Mapping[str, Any]) -> Iteration:
        """Sample and learn; the state to be saved changes only if all of it succeeds.

        `scheduled` are the values of the simulator's scheduled keys that episodes begin with from now on. Failures
        of the simulator are reported as they happen.

        Raises:
            SimulatorError, SamplingAbandonedError, NonFiniteUpdateError, RayLostError: the state is as it was
                before.
        """

    def policy(self) -> Policy:
        """Return the policy as it is now."""

    def save(self, folder: Path, *, simulators: bool) -> str | None:
        """Write policy and complete training state into a folder.

        Return why resuming will start new episodes, if not yet reported.

        Without the simulators it needs nothing but this process, and may be called from another thread.
        """

    def close(self) -> None:
        """End what was started; failures of the simulator in that are reported, too."""


@dataclass(frozen=True)
class Needs:
    """What an engine asks of Ray; it may ask for more CPUs than the machine has only if it shares them."""

    cpus: int
    gpus: float = 0.0
    shares_cpus: bool = True


@dataclass(frozen=True)
class Request:
    """What an engine plans with: the experiment, its simulator and what is known of it, and who wants to know."""

    loaded: LoadedExperiment
    simulator: Simulator
    survey: Survey
    num_workers: int
    resumes: bool
    notice: Callable[[str], None]


class Plan(Protocol):
    """How an engine will train an experiment: decided and checked before anything is made."""

    @property
    def loaded(self) -> LoadedExperiment:
        """The experiment, with what the engine decided."""

    @property
    def num_workers(self) -> int:
        """Processes that step simulators; 0: this one."""

    @property
    def num_simulators(self) -> int:
        """Simulators in all of them."""

    @property
    def needs(self) -> Needs | None:
        """What Ray must have; None if it is not needed."""

    def build(
        self,
        checkpoint: Path | None,
        weights_from: Path | None,
        supervision: RunSupervision,
        scheduled: Mapping[str, Any],
    ) -> Engine:
        """Build the engine, on the Ray that is there; `scheduled` as for `Engine.iterate`."""
