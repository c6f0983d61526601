"""Row formats: which one an experiment has, and that each is read as the same numbers to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from muster.engines.builtin.networks.model_settings import ModelSettings
from muster.engines.builtin.networks.row_formats import dense, dense_blocks, factor, packed, row_format
from muster.engines.builtin.sampling.fragments import Weights
from muster.engines.builtin.sampling.groups import EnvGroup, GroupSettings
from muster.engines.builtin.sampling.learning_rows import Discounting
from muster.engines.builtin.task import CONVOLUTIONAL
from muster.policies.distributions import distribution_for
from muster.simulators.describing import describe_actions, describe_observations
from muster.simulators.encoding import ObservationEncoder
from muster.simulators.simulator import Simulator
from muster.stepping.building import build
from muster.stepping.failures import Supervision
from muster.stepping.many import SteppingSettings


def encoded(image: Any) -> Any:
    encoder = ObservationEncoder(describe_observations(spaces.Box(0, 255, image.shape, np.uint8), (2,)))
    rows = np.zeros((1, encoder.size), np.float32)
    encoder.encode_into(rows[0], image)
    return rows


def test_every_pixel_comes_back_to_the_bit() -> None:
    image = np.arange(256, dtype=np.uint8).reshape(16, 16)
    rows = encoded(image)
    assert packed(rows).tobytes() == image.tobytes()
    assert dense(packed(rows), rows.shape[1]).tobytes() == rows.tobytes()


def test_what_lies_outside_does_not_wrap_around() -> None:
    assert packed(encoded(np.array([[-5, 300]]))).tolist() == [[0, 255]]


@pytest.mark.parametrize(
    ("space", "takes_columns", "kept", "is_measured"),
    [
        (spaces.Box(-1, 1, (3,)), True, np.float32, True),
        (spaces.Discrete(40), True, np.intp, False),
        (spaces.Discrete(40), False, np.float32, False),
        (spaces.Discrete(2), True, np.float32, False),
        (spaces.Box(0, 255, (8, 8), np.uint8), False, np.uint8, False),
        (spaces.Dict(box=spaces.Box(-1, 1, (3,)), choice=spaces.Discrete(40)), True, np.float32, True),
        (spaces.Tuple((spaces.Box(0, 255, (8, 8), np.uint8), spaces.Discrete(2))), False, np.float32, False),
    ],
)
def test_a_space_decides_what_is_kept_and_measured(
    space: Any, takes_columns: bool, kept: Any, is_measured: bool
) -> None:
    found = row_format(describe_observations(space, (2,)), takes_columns=takes_columns)
    assert found.kept_dtype is kept
    assert found.is_measured == is_measured


def test_a_product_with_columns_is_that_with_one_hot_rows() -> None:
    rng = np.random.default_rng(0)
    columns = np.stack([rng.integers(0, 5, 20), rng.integers(5, 9, 20)], axis=1)
    weight = rng.standard_normal((9, 4)).astype(np.float32)
    one_hot = dense(columns, 9)
    assert one_hot.sum(axis=1).tolist() == [2.0] * 20
    np.testing.assert_array_equal(factor(columns) @ weight, one_hot @ weight)
    assert factor(one_hot) is one_hot


def test_only_pixels_are_unpacked_some_at_a_time() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (600, 4)).astype(np.uint8)
    blocks = list(dense_blocks(pixels, 4))
    assert [len(block) for block in blocks] == [256, 256, 88]
    whole = dense(pixels, 4)
    assert np.concatenate(blocks).tobytes() == whole.tobytes()
    assert [len(block) for block in dense_blocks(whole, 4)] == [600]


def settings_for(name: str) -> GroupSettings:
    torch_model = pytest.importorskip("muster.policies.torch_model")
    simulator = Simulator(f"tests.puzzles:{name}")
    env = build(simulator)
    observations = describe_observations(env.observation_space, (2, 3))
    actions = describe_actions(env.action_space)
    encoder, distribution = ObservationEncoder(observations), distribution_for(actions)
    config = {"hidden": [8], "activation": "tanh", "images": encoder.images}
    model = torch_model.TorchModel(CONVOLUTIONAL, encoder.shape, distribution.num_outputs, 0, config)
    stepping = SteppingSettings(simulator, observations, actions, 2, 0)
    return GroupSettings(stepping, 20, Discounting(0.9, 0.5), ModelSettings(torch_model=model))


@pytest.mark.parametrize(("name", "dtype"), [("InImage", np.uint8), ("InImageAndDict", np.float32)])
def test_a_fragment_is_packed_if_all_of_it_is_pixels(name: str, dtype: Any) -> None:
    settings = settings_for(name)
    networks, group = settings.networks(), EnvGroup(settings, 0, [0, 0], Supervision(lambda _: None))
    group.start()
    parameters = networks.initial(np.random.default_rng(0))
    fragment = group.sample(Weights(parameters, None, 1.0))
    assert fragment.observations.dtype == dtype
    parts, rows = networks.split(parameters), dense(fragment.observations, fragment.observations.shape[1])
    assert 0 < rows.max() <= 1
    np.testing.assert_array_equal(networks.values(parts, fragment.observations), networks.values(parts, rows))
