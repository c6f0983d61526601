"""Defaults that depend on the simulator, the engine and the plan: what was given is kept."""

from __future__ import annotations

from typing import Any

import pytest

from muster.experiment import LoadedExperiment, Override, load_experiment
from muster.training.fitting_defaults import envs_per_group, with_defaults_of, with_fitting_defaults


def loaded(**given: Any) -> LoadedExperiment:
    overrides = [Override(key.replace("__", "."), value, "--set") for key, value in given.items()]
    return load_experiment("CartPole-v1", overrides)


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ({}, 2048),
        ({"stop__steps": 1_000_000}, 2048),
        ({"stop__steps": 8000}, 500),
        ({"stop__steps": 100}, 256),
        ({"stop__steps": 100, "algorithm__train_batch_size": 1000}, 1000),
        ({"stop__steps": 100, "algorithm__minibatch_size": 512}, 512),
        ({"stop__steps": 100, "algorithm__minibatch_size": 512, "algorithm__engine": "rllib"}, 512),
        ({"stop__steps": 100, "algorithm__name": "A2C"}, 256),
    ],
)
def test_a_small_plan_has_small_batches(given: dict[str, Any], size: int) -> None:
    fitted = with_fitting_defaults(loaded(**given), is_batched=False).experiment
    assert fitted.algorithm.train_batch_size == size  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("given", "is_batched", "count"),
    [
        ({}, False, 1),
        ({}, True, 8),
        ({"algorithm__name": "dqn"}, False, 8),
        ({"algorithm__engine": "rllib"}, False, 8),
        ({"algorithm__engine": "rllib", "resources__envs_per_group": 1}, False, 1),
        ({"resources__envs_per_group": 3}, True, 3),
    ],
)
def test_simulators_that_step_together_are_eight(given: dict[str, Any], is_batched: bool, count: int) -> None:
    experiment = loaded(**given)
    assert envs_per_group(experiment, is_batched=is_batched) == count
    assert with_fitting_defaults(experiment, is_batched=is_batched).experiment.resources.envs_per_group == count


def test_a_run_that_continues_from_another_keeps_what_was_fitted_there() -> None:
    experiment = loaded(stop__steps=4000)
    fitted = with_fitting_defaults(experiment, is_batched=True)
    assert with_defaults_of(experiment, fitted.experiment).experiment == fitted.experiment
    given = loaded(stop__steps=4000, algorithm__train_batch_size=1000, resources__envs_per_group=2)
    assert with_defaults_of(given, fitted.experiment).experiment == given.experiment
