"""Images as bytes: the same numbers to the bit, in less memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from muster.engines.builtin.groups import EnvGroup, GroupSettings, Weights
from muster.engines.builtin.modelling import ModelSettings
from muster.engines.builtin.pixels import packed, unpacked
from muster.engines.builtin.tasks import CONVOLUTIONAL
from muster.policies.distributions import distribution_for
from muster.simulators.building import Simulator
from muster.simulators.describing import describe_actions, describe_observations
from muster.simulators.encoding import ObservationEncoder


def encoded(image: Any) -> Any:
    encoder = ObservationEncoder(describe_observations(spaces.Box(0, 255, image.shape, np.uint8), (2,)))
    rows = np.zeros((1, encoder.size), np.float32)
    encoder.encode_into(rows[0], image)
    return rows


def test_every_pixel_comes_back_to_the_bit() -> None:
    image = np.arange(256, dtype=np.uint8).reshape(16, 16)
    rows = encoded(image)
    assert packed(rows).tobytes() == image.tobytes()
    assert unpacked(packed(rows)).tobytes() == rows.tobytes()


def test_what_lies_outside_does_not_wrap_around() -> None:
    assert packed(encoded(np.array([[-5, 300]]))).tolist() == [[0, 255]]


def settings_for(name: str) -> GroupSettings:
    torch_model = pytest.importorskip("muster.policies.torch_model")
    simulator = Simulator(f"tests.puzzles:{name}")
    env = simulator.build()
    observations = describe_observations(env.observation_space, (2, 3))
    actions = describe_actions(env.action_space)
    encoder, distribution = ObservationEncoder(observations), distribution_for(actions)
    config = {"hidden": [8], "activation": "tanh", "images": encoder.images}
    model = torch_model.TorchModel(CONVOLUTIONAL, encoder.shape, distribution.num_outputs, 0, config)
    return GroupSettings(simulator, observations, actions, 2, 20, 0, 0.9, 0.5, ModelSettings(torch_model=model))


@pytest.mark.parametrize(("name", "dtype"), [("InImage", np.uint8), ("InImageAndDict", np.float32)])
def test_a_fragment_is_packed_if_all_of_it_is_pixels(name: str, dtype: Any) -> None:
    settings = settings_for(name)
    networks, group = settings.networks(), EnvGroup(settings, 0, [0, 0])
    group.start()
    parameters = networks.initial(np.random.default_rng(0))
    fragment = group.sample(Weights(parameters, None, 1.0))
    assert fragment.observations.dtype == dtype
    parts, rows = networks.split(parameters), unpacked(fragment.observations)
    assert 0 < rows.max() <= 1
    np.testing.assert_array_equal(networks.values(parts, fragment.observations), networks.values(parts, rows))
