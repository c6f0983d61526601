"""Any simulator that the built-in engine takes, and Dict, Tuple and images besides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from muster import load_policy
from muster.engines.rllib.spaces import ObservationCoder, action_space, decode_action
from muster.errors import ExperimentError
from muster.experiment import load_experiment
from muster.simulators.describing import describe_actions, describe_observations
from muster.stepping.evaluation import EvaluationTask, evaluate_here
from muster.stepping.failures import Supervision
from muster.stepping.rules import Rules
from tests.commands import RATIO
from tests.engines.rllib.runs import small


def test_parts_are_encoded_one_after_another() -> None:
    space = spaces.Dict(
        {"b": spaces.Tuple((spaces.Discrete(3, start=5), spaces.Box(-1, 1, (2, 2)))), "a": spaces.MultiBinary(2)}
    )
    coder = ObservationCoder(describe_observations(space))
    row = coder.encode({"a": [1, 0], "b": (6, [[1, 2], [3, 4]])})
    assert row.tolist() == [1, 0, 0, 1, 0, 1, 2, 3, 4]
    assert coder.scalable.tolist() == [False] * 5 + [True] * 4
    assert coder.space.contains(row)
    with pytest.raises(ValueError, match="not finite"):
        coder.encode({"a": [1, 0], "b": (6, [[1, np.nan], [3, 4]])})


def test_an_image_keeps_its_shape() -> None:
    coder = ObservationCoder(describe_observations(spaces.Box(0, 255, (8, 6, 3), np.uint8), (3,)))
    image = coder.encode(np.full((8, 6, 3), 51, np.uint8))
    assert image.shape == (8, 6, 3)
    np.testing.assert_allclose(image, 0.2)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(3, start=-1),
        spaces.MultiDiscrete(np.array([[2, 3], [4, 5]])),
        spaces.Box(-2, 3, (2, 2), np.float64),
        spaces.Box(0, 9, (2,), np.int32),
    ],
)
def test_rllib_s_actions_become_the_simulator_s(space: gymnasium.Space[Any]) -> None:
    description = describe_actions(space)
    seen = action_space(description)
    for _ in range(10):
        assert space.contains(decode_action(description, seen.sample()))


@pytest.mark.parametrize("name", ["Parts", "Picture", "Aim", "Guess"])
def test_trains_with_every_kind_of_observation(name: str, tmp_path: Path, ray_with_four_cpus: None) -> None:
    target = f"tests.toys:{name}"
    assert small(target, tmp_path).state == "finished"
    simulator = load_experiment(target).experiment.simulator()
    task = EvaluationTask(simulator, Rules(), 2, seed=0)
    assert evaluate_here(load_policy(tmp_path / "run"), task, Supervision(print)).episodes == 2


def test_multi_discrete_observations_and_evaluation_on_the_way(tmp_path: Path, ray_with_four_cpus: None) -> None:
    small(str(RATIO), tmp_path, evaluation__every=1, evaluation__episodes=2)
    assert (tmp_path / "run" / "evaluations.jsonl").read_text().count("\n") == 2
    action = load_policy(tmp_path / "run").act(np.array([1, 48, 0, 0, 0]))
    assert 0 <= action < 49


@pytest.mark.parametrize(("algorithm", "target"), [("DQN", "Pendulum-v1"), ("TQC", "CartPole-v1")])
def test_actions_that_an_algorithm_cannot_take_are_told(algorithm: str, target: str, tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match=rf"action space .*: {algorithm} acts with (Discrete|Box) only"):
        small(target, tmp_path, algorithm=algorithm)


def test_images_with_channels_first_are_shown_with_channels_last() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 9, 8)).astype(np.uint8)
    coder = ObservationCoder({"kind": "image", "shape": [4, 9, 8]})
    encoded = coder.encode(pixels)
    assert coder.space.shape == coder.shape == (9, 8, 4)
    assert np.array_equal(encoded, np.moveaxis(pixels, 0, -1).astype(np.float32) / np.float32(255))
    assert coder.space.contains(np.ascontiguousarray(encoded))
