"""What RLlib is told before it trains: every key and space is checked, and what Ray must have is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from muster.engines.engine import Needs, Request, RunSupervision, image_dimensions
from muster.engines.rllib.algorithms import ALGORITHMS
from muster.engines.rllib.config import Subject, make_config, quieten
from muster.engines.rllib.engine import RLlibEngine
from muster.engines.rllib.env import GuardedSimulator
from muster.engines.rllib.hyperparameters import hyperparameter_names, problems_with_keys
from muster.engines.rllib.masked_modules import MODULES
from muster.errors import ExperimentError, Problem
from muster.experiment import LoadedExperiment
from muster.experiment.schema import PPOSection, RLlibSection
from muster.experiment.source import DEFAULT
from muster.simulators.describing import (
    Description,
    UnsupportedSpaceError,
    describe_actions,
    describe_observations,
    mask_sizes,
    with_mask,
)
from muster.simulators.simulator import Simulator
from muster.stepping.hang_watch import IN_ONE_PROCESS

DEFAULT_OF_RLLIB = "default with RLlib"
_DEFAULT_HIDDEN = [256, 256]
_DEFAULT_ACTIVATION = "relu"


@dataclass(frozen=True)
class RLlibPlan:
    """One of RLlib's algorithms with so many env runners."""

    loaded: LoadedExperiment
    simulator: Simulator
    subject: Subject
    num_workers: int
    needs: Needs

    @property
    def num_simulators(self) -> int:
        """Simulators in all env runners."""
        return max(1, self.num_workers) * self.loaded.experiment.resources.envs_per_group

    def build(
        self,
        checkpoint: Path | None,
        weights_from: Path | None,
        supervision: RunSupervision,
        scheduled: Mapping[str, Any],
    ) -> RLlibEngine:
        """Build the engine."""
        simulator = replace(self.simulator, scheduled=scheduled)
        return RLlibEngine(self.subject, simulator, self.num_workers, supervision, checkpoint, weights_from)


def make_rllib_plan(request: Request) -> RLlibPlan:
    """Check all that RLlib would refuse or misread, each problem with its place.

    Raises:
        ExperimentError: with all of them.
    """
    quieten()
    loaded = with_defaults(request.loaded)
    experiment = loaded.experiment
    observations, actions, problems = _spaces(request, loaded)
    is_masked = bool(mask_sizes(actions)) and ("mask" in observations or request.survey.gives_mask)
    subject = Subject(experiment, observations, actions, is_masked)
    problems += _mask_problems(subject, loaded)
    problems += _key_problems(loaded)
    if problems:
        raise ExperimentError(loaded.subject, problems)
    config = make_config(subject, request.num_workers, GuardedSimulator, {})
    try:
        config.copy(copy_frozen=False).validate()
    except (ValueError, TypeError) as error:
        message = str(error).partition("\nTo suppress")[0]
        raise ExperimentError(loaded.subject, [Problem("algorithm", f"RLlib refuses: {message}")]) from None
    if experiment.env.step_timeout and not request.num_workers:
        request.notice(IN_ONE_PROCESS)
    num_learners = config.num_learners
    cpus = request.num_workers * config.num_cpus_per_env_runner + num_learners
    cpus += config.num_aggregator_actors_per_learner * max(1, num_learners)
    needs = Needs(int(cpus), config.num_gpus_per_learner * max(1, num_learners), shares_cpus=False)
    return RLlibPlan(loaded, request.simulator, subject, request.num_workers, needs)


def with_defaults(loaded: LoadedExperiment) -> LoadedExperiment:
    """Settle what has another default here: RLlib's own network, and no scales where experience is replayed."""
    if not isinstance(loaded.experiment.algorithm, RLlibSection):
        return loaded
    changes: dict[str, object] = {"model.hidden": _DEFAULT_HIDDEN, "model.activation": _DEFAULT_ACTIVATION}
    if loaded.experiment.algorithm.name not in ("APPO", "IMPALA"):
        changes |= {"normalize.observations": False, "normalize.rewards": False}
    for key, value in changes.items():
        if loaded.sources.get(key, DEFAULT) == DEFAULT:
            loaded = loaded.replace(key, value, DEFAULT_OF_RLLIB)
    return loaded


def _spaces(request: Request, loaded: LoadedExperiment) -> tuple[Description, Description, list[Problem]]:
    """Describe the spaces; an empty description stands for one that has a problem."""
    name, place = loaded.experiment.algorithm.name, loaded.place("env.id")
    hint = UnsupportedSpaceError.hint
    observations: Description = {"kind": "discrete", "n": 1, "start": 0}
    actions = observations
    problems = []
    try:
        dimensions = image_dimensions(loaded.experiment)
        observations = describe_observations(request.survey.observation_space, dimensions)
    except UnsupportedSpaceError as error:
        problems.append(Problem(place, str(error), error.hint))
    try:
        actions = describe_actions(request.survey.action_space)
        observations = with_mask(observations, actions)
        possible = Subject(loaded.experiment, observations, actions).algorithm.actions
        if actions["kind"] not in possible:
            takes = " or ".join(_SPACE_NAMES[kind] for kind in possible)
            problems.append(
                Problem(place, f"action space {request.survey.action_space}: {name} acts with {takes} only", hint)
            )
    except UnsupportedSpaceError as error:
        problems.append(Problem(place, str(error), error.hint))
    return observations, actions, problems


def _mask_problems(subject: Subject, loaded: LoadedExperiment) -> list[Problem]:
    """Return why the simulator's action masks cannot be heeded."""
    name = subject.experiment.algorithm.name
    if not subject.is_masked:
        return []
    if name not in MODULES:
        message = f"it gives action masks, which {name} does not heed on RLlib"
        heed = " and ".join(MODULES)
        hint = f"{heed} do, and the built-in engine; or let a wrapper in env.wrappers take the mask out"
        return [Problem(loaded.place("env.id"), message, hint)]
    if subject.experiment.model.class_ is not None:
        message = "RLlib heeds action masks with its own network only"
        return [Problem(loaded.place("model.class"), message, "leave it out, or use the built-in engine")]
    if subject.observations["kind"] == "image":
        message = "RLlib does not heed action masks with a network for images"
        return [Problem(loaded.place("env.id"), message, "set model.images = false, or use the built-in engine")]
    return []


_SPACE_NAMES = {"discrete": "Discrete", "multi_discrete": "MultiDiscrete", "box": "Box"}


_BUILTIN_KEYS = {"action_bounds", "log_std_init", "use_sde", "sde_sample_freq"}


def own_hyperparameters(loaded: LoadedExperiment) -> dict[str, Any]:
    """Return RLlib's hyperparameters of an experiment's algorithm that the schema does not have, with defaults."""
    algorithm = loaded.experiment.algorithm
    config = ALGORITHMS[algorithm.name].new_config(algorithm.name)
    names = sorted(hyperparameter_names(config) - set(type(algorithm).model_fields))
    return {name: vars(config)[name] for name in names if name in vars(config)}


def problems_without_simulator(loaded: LoadedExperiment) -> list[Problem]:
    """Return what is wrong with an experiment's keys, whatever its simulator."""
    return _key_problems(with_defaults(loaded))


def _key_problems(loaded: LoadedExperiment) -> list[Problem]:
    experiment, algorithm = loaded.experiment, loaded.experiment.algorithm
    entry = ALGORITHMS[algorithm.name]
    given = dict(algorithm.model_extra or {})
    own = set(type(algorithm).model_fields)
    problems = problems_with_keys(loaded, entry.new_config(algorithm.name), own, given)
    if isinstance(algorithm, PPOSection) and algorithm.target_kl is not None:
        problems.append(
            Problem(
                loaded.place("algorithm.target_kl"),
                "RLlib's PPO does not end epochs early",
                "leave it out, or use RLlib's own: use_kl_loss, kl_coeff, kl_target",
            )
        )
    problems += [
        Problem(loaded.place(f"algorithm.{key}"), "is the built-in engine's, not RLlib's", "leave it out")
        for key in _BUILTIN_KEYS & own
        if getattr(algorithm, key) != type(algorithm).model_fields[key].default
    ]
    if entry.replays:
        problems += [
            Problem(
                loaded.place(f"normalize.{key}"),
                f"cannot be on with {algorithm.name}: what it replays was scaled otherwise",
                "leave it out, or scale with a wrapper in env.wrappers",
            )
            for key, is_on in experiment.normalize.model_dump().items()
            if is_on
        ]
    if experiment.model.class_ is not None and algorithm.name == "DreamerV3":
        place = loaded.place("model.class")
        problems.append(Problem(place, "DreamerV3 has a model of its own", "leave it out; see model_size"))
    return problems
