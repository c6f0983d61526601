"""From a simulator's spaces and the experiment's model to the task that the built-in engine trains."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING

from muster.engines.builtin.learning.algorithms import algorithm_of, torch_trainers
from muster.engines.builtin.networks.model_settings import ModelSettings, Task
from muster.engines.engine import image_dimensions
from muster.errors import ExperimentError, InputError, Problem
from muster.experiment import LoadedExperiment
from muster.experiment.schema import AlgorithmSection
from muster.extras import how_to_install
from muster.policies.distributions import Gaussian, distribution_for
from muster.simulators.describing import (
    Description,
    Spaces,
    UnsupportedSpaceError,
    describe_actions,
    describe_observations,
    leaves,
    with_mask,
)
from muster.simulators.encoding import ObservationEncoder
from muster.simulators.lookup import import_attribute

if TYPE_CHECKING:
    from muster.policies.torch_model import TorchModel

CONVOLUTIONAL = "muster.policies.convolution:ConvolutionalNetwork"


def make_task(spaces: Spaces, loaded: LoadedExperiment) -> Task:
    """Describe the simulator's spaces and choose the network for them.

    Raises:
        ExperimentError: if a space has no encoding, or the network or exploration asked for does not fit.
        InputError: if torch is needed and not installed.
    """
    experiment, algorithm = loaded.experiment, loaded.experiment.algorithm
    assert isinstance(algorithm, AlgorithmSection)
    observations, actions = _descriptions(spaces, loaded)
    model = experiment.model
    needs_torch = model.class_ is not None or any(leaf["kind"] == "image" for _, leaf in leaves(observations))
    problems = _problems(loaded, needs_torch, actions)
    if problems:
        raise ExperimentError(experiment.env.id, problems)
    settings = ModelSettings(
        tuple(model.hidden),
        model.activation,
        _torch_model(loaded, observations, actions) if needs_torch else None,
        algorithm.log_std_init,
        algorithm.use_sde,
        algorithm.sde_sample_freq,
    )
    return Task(observations, actions, settings)


def _descriptions(spaces: Spaces, loaded: LoadedExperiment) -> tuple[Description, Description]:
    experiment, algorithm = loaded.experiment, loaded.experiment.algorithm
    assert isinstance(algorithm, AlgorithmSection)
    observations: Description = {"kind": "discrete", "n": 1, "start": 0}
    actions = observations
    problems = []
    try:
        actions = describe_actions(spaces.action_space, squash=algorithm.action_bounds == "squash")
    except UnsupportedSpaceError as error:
        problems.append(Problem("env.id", str(error), error.hint))
    try:
        described = describe_observations(spaces.observation_space, image_dimensions(experiment))
        observations = with_mask(described, actions)
    except UnsupportedSpaceError as error:
        problems.append(Problem("env.id", str(error), error.hint))
    if problems:
        raise ExperimentError(experiment.env.id, problems)
    return observations, actions


def _problems(loaded: LoadedExperiment, needs_torch: bool, actions: Description) -> list[Problem]:
    """Return the settings that exclude one another."""
    algorithm, model = loaded.experiment.algorithm, loaded.experiment.model
    assert isinstance(algorithm, AlgorithmSection)
    place = loaded.place("model.class") if model.class_ is not None else loaded.place("env.id")
    network = "a network of your own" if model.class_ is not None else "a network for images"
    problems = []
    if needs_torch and not algorithm_of(loaded.experiment).trains_torch:
        way_out = "" if model.class_ is not None else ", or set model.images = false"
        remedy = f"train it with {' or '.join(torch_trainers())}{way_out}"
        problems.append(Problem(place, f"{algorithm.name} does not train {network}", remedy))
    if algorithm.use_sde and needs_torch:
        problem = f"does not go with {network}"
        problems.append(Problem(loaded.place("algorithm.use_sde"), problem, "leave it out"))
    elif algorithm.use_sde and not isinstance(distribution_for(actions), Gaussian):
        problem = "is for continuous actions only, and some of these are discrete"
        problems.append(Problem(loaded.place("algorithm.use_sde"), problem, "leave it out"))
    if algorithm.sde_sample_freq is not None and not algorithm.use_sde:
        place = loaded.place("algorithm.sde_sample_freq")
        problems.append(Problem(place, "has no meaning without algorithm.use_sde = true", "give both or neither"))
    if model.config and model.class_ is None:
        problems.append(Problem(loaded.place("model.config"), "is for a network of your own", "set model.class"))
    return problems


def _torch_model(loaded: LoadedExperiment, observations: Description, actions: Description) -> TorchModel:
    """Return how to build the model; it is built and tried once here."""
    experiment = loaded.experiment
    try:
        from muster.policies.torch_model import TorchModel
    except ModuleNotFoundError as error:
        way_out = "" if experiment.model.class_ else "\n    or set model.images = false"
        needs = f"{experiment.env.id}: its network needs an extra ({error})"
        raise InputError(f"{needs}{how_to_install('torch')}{way_out}") from None
    if experiment.model.class_ is not None and _is_rllib_s(experiment.model.class_, experiment.env.paths):
        what, remedy = "is a network for RLlib", "train it there: --engine rllib"
        raise ExperimentError(experiment.env.id, [Problem(loaded.place("model.class"), what, remedy)])
    encoder, distribution = ObservationEncoder(observations), distribution_for(actions)
    config = dict(experiment.model.config)
    if experiment.model.class_ is None:
        config = {"hidden": list(experiment.model.hidden), "activation": experiment.model.activation}
        config["images"] = [[start, list(shape)] for start, shape in encoder.images]
    model = TorchModel(
        experiment.model.class_ or CONVOLUTIONAL,
        encoder.shape,
        distribution.num_outputs - distribution.num_continuous,
        distribution.num_continuous,
        config,
        list(experiment.env.paths),
    )
    try:
        model.check()
    except ExperimentError:
        raise
    except Exception as error:
        problem = f"{type(error).__name__}: {error}\n\n{traceback.format_exc()}"
        raise ExperimentError(experiment.env.id, [Problem(loaded.place("model.class"), problem)]) from None
    return model


def _is_rllib_s(name: str, paths: Sequence[str]) -> bool:
    """Return whether a class derives from one of RLlib's, without importing RLlib."""
    bases = getattr(import_attribute(name, "model.class", paths), "__mro__", ())
    return any(base.__module__.startswith("ray.rllib.") for base in bases)
