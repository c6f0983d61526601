"""Spaces as arrays, there and back."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from muster.simulators.encoding import (
    ActionDecoder,
    ObservationEncoder,
    UnsupportedSpaceError,
    describe_actions,
    describe_observations,
)


def encode(space: Any, observation: Any) -> list[float]:
    description = json.loads(json.dumps(describe_observations(space)))
    encoder = ObservationEncoder(description)
    row = np.full(encoder.size, np.nan, np.float32)
    encoder.encode_into(row, observation)
    return row.tolist()


def test_observations() -> None:
    assert encode(spaces.Box(-1, 1, (3,)), np.array([0.5, -1, 1])) == [0.5, -1, 1]
    assert encode(spaces.Box(0, 255, (2, 2), np.uint8), np.array([[1, 2], [3, 4]], np.uint8)) == [1, 2, 3, 4]
    assert encode(spaces.Discrete(3), 2) == [0, 0, 1]
    assert encode(spaces.Discrete(3, start=5), np.int64(5)) == [1, 0, 0]
    assert encode(spaces.MultiDiscrete([2, 3]), np.array([1, 0])) == [0, 1, 1, 0, 0]
    assert encode(spaces.MultiDiscrete([2, 3], start=[10, -1]), np.array([10, 1])) == [1, 0, 0, 0, 1]
    assert encode(spaces.MultiBinary(3), np.array([1, 0, 1])) == [1, 0, 1]


@pytest.mark.parametrize(
    ("space", "observation", "message"),
    [
        (spaces.Box(-1, 1, (3,)), np.zeros(2), r"shape \(2,\), its space says \(3,\)"),
        (spaces.Discrete(3), 3, r"\[3\] lies outside its space: \[0\] to \[2\]"),
        (spaces.MultiDiscrete([2, 2]), np.array([0, -1]), "lies outside"),
        (spaces.MultiDiscrete([2, 2]), np.array([0, 1, 1]), "shape"),
    ],
)
def test_observations_that_do_not_fit(space: Any, observation: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode(space, observation)


def test_only_measurements_are_scaled() -> None:
    assert ObservationEncoder(describe_observations(spaces.Box(0, 1, (2,)))).scalable.tolist() == [True, True]
    assert ObservationEncoder(describe_observations(spaces.Discrete(2))).scalable.tolist() == [False, False]


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(3, start=-1),
        spaces.MultiDiscrete([2, 3], start=[1, 2]),
        spaces.Box(np.array([-2.0, 0.0]), np.array([2.0, 10.0]), dtype=np.float64),
        spaces.Box(-1, 1, (2, 2), np.float32),
        spaces.Box(0, 9, (2,), np.int32),
        spaces.Box(-np.inf, np.inf, (2,), np.float32),
    ],
)
def test_actions_are_of_their_space(space: Any) -> None:
    description = json.loads(json.dumps(describe_actions(space)))
    decoder = ActionDecoder(description)
    rng = np.random.default_rng(0)
    if description["kind"] == "box":
        rows = rng.standard_normal((50, int(np.prod(space.shape)))).astype(np.float32) * 2
    else:
        sizes = [description["n"]] if description["kind"] == "discrete" else description["nvec"]
        rows = np.stack([rng.integers(size, size=50) for size in sizes], axis=1)
    for action in decoder.decode(rows):
        assert space.contains(action), action


def test_a_bounded_box_is_stretched_and_clipped() -> None:
    space = spaces.Box(np.array([-2.0, 0.0]), np.array([2.0, 10.0]), dtype=np.float64)
    decoder = ActionDecoder(describe_actions(space))
    rows = np.array([[0.0, 0.0], [1.0, -1.0], [5.0, 5.0]])
    assert [action.tolist() for action in decoder.decode(rows)] == [[0, 5], [2, 0], [2, 10]]


def test_spaces_without_an_encoding_are_named() -> None:
    with pytest.raises(UnsupportedSpaceError, match=r"observation space Dict.*expected Box"):
        describe_observations(spaces.Dict({"a": spaces.Discrete(2)}))
    with pytest.raises(UnsupportedSpaceError, match=r"action space MultiBinary.*expected Discrete"):
        describe_actions(spaces.MultiBinary(2))
