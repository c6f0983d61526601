"""From an experiment to RLlib's config: hyperparameters, model, resources, fault tolerance."""

from __future__ import annotations

import logging
import math
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import gymnasium
import ray.cloudpickle
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from muster.engines.rllib.algorithms import ALGORITHMS, Algorithm
from muster.engines.rllib.masked_modules import MODULES, OWN, with_columns
from muster.engines.rllib.report_actor import report_sample
from muster.engines.rllib.spaces import ObservationCoder, action_space
from muster.experiment.schema import Experiment, PPOSection, RLlibSection
from muster.ray_private import DEPRECATION_LOGGER
from muster.simulators.describing import Description, mask_sizes
from muster.simulators.lookup import import_attribute

NEVER = 10 * 365 * 86_400.0
_ORTHOGONAL = "orthogonal_"
_LARGE_IMAGE = 36
_LARGE_FILTERS = [[32, 8, 4], [64, 4, 2], [64, 3, 1]]
_SMALL_FILTERS = [[16, 3, 1], [32, 3, 2]]


@dataclass(frozen=True)
class Subject:
    """What a model is made for: an experiment, its simulator's spaces, and whether that gives action masks."""

    experiment: Experiment
    observations: Description
    actions: Description
    is_masked: bool = False

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm's entry in our table."""
        return ALGORITHMS[self.experiment.algorithm.name]

    @property
    def spaces(self) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]]:
        """Observations and actions as RLlib sees them."""
        observations = ObservationCoder(self.observations).space
        if self.is_masked:
            observations = with_columns(observations, sum(mask_sizes(self.actions)))
        return observations, action_space(self.actions)


def hyperparameters(experiment: Experiment) -> dict[str, Any]:
    """Return what was given of RLlib's hyperparameters, by RLlib's names."""
    algorithm = experiment.algorithm
    if isinstance(algorithm, RLlibSection):
        given = algorithm.hyperparameters
        # A range, which RLlib knows by its being a tuple; TOML has none.
        if isinstance(steps := given.get("n_step"), list):
            given["n_step"] = tuple(steps)
        return given
    assert isinstance(algorithm, PPOSection)
    end = _planned_steps(experiment, algorithm)
    falls = algorithm.lr_schedule == "linear" and end is not None
    return {
        "lr": [[0, algorithm.lr], [end, 0.0]] if falls else algorithm.lr,
        "gamma": algorithm.gamma,
        "lambda_": algorithm.lambda_,
        "train_batch_size": algorithm.train_batch_size,
        "minibatch_size": algorithm.minibatch_size,
        "num_epochs": algorithm.num_epochs,
        "clip_param": algorithm.clip_param,
        "entropy_coeff": algorithm.entropy_coeff,
        "vf_loss_coeff": algorithm.vf_loss_coeff,
        "vf_clip_param": math.inf if algorithm.vf_clip_param is None else algorithm.vf_clip_param,
        "grad_clip": algorithm.grad_clip,
        "use_kl_loss": False,
        **(algorithm.model_extra or {}),
    }


def _planned_steps(experiment: Experiment, algorithm: PPOSection) -> int | None:
    """Return the steps after which training stops at the latest, by its stop rules for steps and iterations."""
    stop = experiment.stop
    ends = [stop.steps, None if stop.iterations is None else stop.iterations * algorithm.train_batch_size]
    return min((end for end in ends if end is not None), default=None)


def make_model_config(subject: Subject) -> Any:
    """Return the config with hyperparameters and model, enough to build the policy from."""
    experiment = subject.experiment
    config = subject.algorithm.new_config(experiment.algorithm.name)
    given = hyperparameters(experiment)
    batch_size = given.pop("train_batch_size", None)
    config.training(**given)
    if batch_size is not None:
        config.train_batch_size_per_learner = batch_size
    config.log_level = "ERROR"
    if experiment.algorithm.name != "DreamerV3":
        _set_model(config, subject)
    return config


def make_config(subject: Subject, num_workers: int, env_class: type[Any], env_config: dict[str, Any]) -> Any:
    """Return the whole config, ready to build the algorithm."""
    experiment, algorithm = subject.experiment, subject.algorithm
    config = make_model_config(subject)
    config.environment(env_class, env_config=env_config)
    config.env_runners(
        num_env_runners=num_workers,
        num_envs_per_env_runner=experiment.resources.envs_per_group,
        num_cpus_per_env_runner=experiment.env.cpus or 1,
        sample_timeout_s=NEVER,
    )
    config.fault_tolerance(
        restart_failed_env_runners=True,
        delay_between_env_runner_restarts_s=1.0,
        num_consecutive_env_runner_failures_tolerance=10**9,
    )
    num_learners = math.ceil(experiment.resources.gpus)
    config.learners(
        num_learners=num_learners,
        num_gpus_per_learner=experiment.resources.gpus / max(1, num_learners),
    )
    config.callbacks(on_sample_end=report_sample)
    config.debugging(seed=experiment.seed)
    config.min_time_s_per_iteration = None
    # At least one: without it, an iteration in which all env runners are lost would be over at once.
    config.min_sample_timesteps_per_iteration = algorithm.steps or 1
    for name, value in getattr(experiment.algorithm, "rllib", {}).items():
        setattr(config, name, value)
    if config.num_learners > 1:
        config.train_batch_size_per_learner = math.ceil(config.train_batch_size_per_learner / config.num_learners)
    return config


def quieten() -> None:
    """Keep RLlib's notes on itself off the user's screen; errors stay."""
    for name in ("ray.rllib", "ray.tune", DEPRECATION_LOGGER, "ray.rllib.utils.deprecation"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", message=".*rllib-single-agent-env-v0 already in registry")


def _set_model(config: Any, subject: Subject) -> None:
    model = subject.experiment.model
    settings = DefaultModelConfig(fcnet_hiddens=list(model.hidden), fcnet_activation=model.activation)
    if isinstance(subject.experiment.algorithm, PPOSection):
        _start_like_builtin(settings)
        settings.free_log_std = subject.actions["kind"] == "box"
    elif subject.experiment.algorithm.name == "DQN" and len(model.hidden) > 1:
        _give_the_heads_a_layer(settings)
    if subject.observations["kind"] == "image":
        is_large = min((subject.spaces[0].shape or ())[:2]) >= _LARGE_IMAGE
        settings.conv_filters = _LARGE_FILTERS if is_large else _SMALL_FILTERS
    if model.class_ is None:
        config.rl_module(model_config=settings)
        modules = MODULES if subject.is_masked else OWN
        if (module := modules.get(subject.experiment.algorithm.name)) is not None:
            config.rl_module(rl_module_spec=RLModuleSpec(module_class=module))
        return
    own = import_attribute(model.class_, "model.class", subject.experiment.env.paths)
    # Workers get the class itself: they need not find its module.
    ray.cloudpickle.register_pickle_by_value(sys.modules[own.__module__])
    config.rl_module(
        rl_module_spec=RLModuleSpec(module_class=own, model_config={**vars(settings), **model.config})
    )


def _give_the_heads_a_layer(settings: DefaultModelConfig) -> None:
    """Move the last hidden layer into the heads for value and advantage: linear ones hardly learn."""
    settings.head_fcnet_hiddens = settings.fcnet_hiddens[-1:]
    settings.fcnet_hiddens = settings.fcnet_hiddens[:-1]
    settings.head_fcnet_activation = settings.fcnet_activation
    settings.fcnet_bias_initializer = settings.head_fcnet_bias_initializer = "zeros_"


def _start_like_builtin(settings: DefaultModelConfig) -> None:
    """Begin as the built-in network does: orthogonal weights, and a policy that is even at first."""
    settings.vf_share_layers = False
    settings.fcnet_kernel_initializer = _ORTHOGONAL
    settings.fcnet_kernel_initializer_kwargs = {"gain": math.sqrt(2)}
    settings.head_fcnet_kernel_initializer = _ORTHOGONAL
    settings.head_fcnet_kernel_initializer_kwargs = {"gain": 0.01}
