"""Which keys RLlib's configs have, and what is wrong with those that were given."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Collection, Mapping
from typing import Any

from ray.rllib.algorithms.algorithm_config import DEPRECATED_VALUE

from muster.errors import Problem
from muster.experiment import LoadedExperiment

# Of `training()`'s arguments: those that are no values of a file, or muster's own sections say.
_NOT_HYPERPARAMETERS = {"model", "optimizer", "learner_class", "learner_connector", "learner_config_dict"}

# Settings of AlgorithmConfig that muster decides, and the key that decides each.
SETTLED = {
    "num_env_runners": "resources.workers",
    "num_envs_per_env_runner": "resources.envs_per_group",
    "num_gpus_per_learner": "resources.gpus",
    "num_gpus": "resources.gpus",
    "seed": "seed",
    "env": "env.id",
    "env_config": "env.config",
    "rl_module_spec": "model.class",
    "framework_str": "nothing: RLlib runs on torch",
    "enable_rl_module_and_learner": "nothing: it is always on",
    "enable_env_runner_and_connector_v2": "nothing: it is always on",
    "evaluation_interval": "evaluation.every",
    "evaluation_num_env_runners": "nothing: muster evaluates in its own process",
    "create_env_on_local_worker": "nothing: simulators are in the env runners",
    "gym_env_vectorize_mode": "nothing: simulators are in the env runner's own process",
    "callbacks_on_sample_end": "nothing: muster counts with it",
}


def hyperparameter_names(config: Any) -> set[str]:
    """Return the arguments of a config's `training()`, those of its base classes included."""
    names = set()
    for base in type(config).__mro__:
        training = vars(base).get("training")
        if training is None:
            continue
        names |= {
            name
            for name, parameter in inspect.signature(training).parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY and parameter.default != DEPRECATED_VALUE
        }
    return {name for name in names - _NOT_HYPERPARAMETERS if not name.startswith("_") and name in dir(config)}


def setting_names(config: Any) -> set[str]:
    """Return all settings of a config."""
    return {
        name for name, value in vars(config).items() if not name.startswith("_") and value is not DEPRECATED_VALUE
    }


def problems_with_keys(
    loaded: LoadedExperiment, config: Any, own: Collection[str], given: Mapping[str, Any]
) -> list[Problem]:
    """Return what is wrong with the keys of `[algorithm]` that are RLlib's and with `[algorithm.rllib]`.

    `own` are the keys of `[algorithm]` that are muster's.
    """
    algorithm = loaded.experiment.algorithm
    names = hyperparameter_names(config)
    problems = []
    for key, value in given.items():
        place = loaded.place(f"algorithm.{key}")
        if key not in names:
            problems.append(Problem(place, *_unknown(key, f"[algorithm] of {algorithm.name}", names | set(own))))
        elif problem := _type_problem(vars(config).get(key), value):
            problems.append(Problem(place, problem))
    settings = setting_names(config)
    for key, value in getattr(algorithm, "rllib", {}).items():
        place = loaded.place(f"algorithm.rllib.{key}")
        if key in SETTLED:
            problems.append(Problem(place, f"is not set here, but by {SETTLED[key]}"))
        elif key not in settings:
            problems.append(Problem(place, *_unknown(key, f"RLlib's config of {algorithm.name}", settings)))
        elif problem := _type_problem(vars(config).get(key), value):
            problems.append(Problem(place, problem))
    return problems


def _unknown(key: str, where: str, names: Collection[str]) -> tuple[str, str]:
    near = difflib.get_close_matches(key, sorted(names), n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(sorted(names)[:40])}"
    return f"{where} has no key {key!r}", hint


def _type_problem(default: Any, value: Any) -> str | None:
    """Tell a value that cannot be meant; schedules and the like are lists, and RLlib's own business."""
    is_number = isinstance(default, (int, float)) and not isinstance(default, bool)
    if is_number and (isinstance(value, bool) or not isinstance(value, (int, float, list))):
        return f"{value!r}: expected a number, such as {default!r}"
    if isinstance(default, bool) and not isinstance(value, bool):
        return f"{value!r}: expected true or false"
    return None
