"""The table of algorithms: the same names as the experiment file has, and columns each written once."""

from __future__ import annotations

import pytest

from muster.engines.builtin.learning.algorithms import ALGORITHMS, algorithm_of, torch_trainers
from muster.engines.builtin.learning.metrics import column_names, columns
from muster.engines.builtin.learning.ppo import PPOMetrics
from muster.experiment.schema import BUILTIN_ALGORITHMS, Experiment


def test_the_engine_has_the_algorithms_that_the_schema_names() -> None:
    assert tuple(ALGORITHMS) == BUILTIN_ALGORITHMS
    assert torch_trainers() == ["PPO", "A2C"]


@pytest.mark.parametrize("name", BUILTIN_ALGORITHMS)
def test_an_algorithm_is_found_by_its_name_and_has_the_settings_of_the_experiment(name: str) -> None:
    experiment = Experiment.model_validate({"env": {"id": "x"}, "algorithm": {"name": name.lower(), "lr": 0.5}})
    algorithm = algorithm_of(experiment)
    assert type(algorithm) is ALGORITHMS[name]
    assert algorithm.settings is experiment.algorithm  # type: ignore[attr-defined]
    rooms = {column.partition("/")[0] for column in algorithm.metrics}
    assert rooms == {"policy", "value", "learner"}


def test_a_field_is_a_column() -> None:
    metrics = PPOMetrics(*range(9))
    assert columns(metrics)["policy/clip_fraction"] == metrics.policy_clip_fraction
    assert tuple(columns(metrics)) == column_names(PPOMetrics)
