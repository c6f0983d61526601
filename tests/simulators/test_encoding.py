"""Spaces as arrays, there and back."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array

from muster.simulators.decoding import ActionDecoder
from muster.simulators.describing import UnsupportedSpaceError, describe_actions, describe_observations, with_mask
from muster.simulators.encoding import ObservationEncoder
from muster.simulators.masks import MaskReader


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


SPACES = [
    spaces.Box(-1, 1, (2, 3)),
    spaces.Box(0, 255, (8, 8, 3), np.uint8),
    spaces.Box(-5, 5, (2,), np.int64),
    spaces.Discrete(4, start=-2),
    spaces.Discrete(40),
    spaces.MultiDiscrete([20, 30], start=[3, 0]),
    spaces.MultiDiscrete(np.array([[2, 3], [4, 2]])),
    spaces.MultiBinary((2, 2)),
    spaces.Dict({"a": spaces.Discrete(30), "b": spaces.Tuple([spaces.MultiDiscrete([4, 60], start=[1, 2])])}),
    spaces.Dict({"a": spaces.Box(0, 255, (6, 6), np.uint8), "b": spaces.Tuple([spaces.Discrete(2)])}),
]


@pytest.mark.parametrize("space", SPACES)
def test_a_batch_is_encoded_as_its_observations_one_by_one(space: Any) -> None:
    dense = ObservationEncoder(describe_observations(space, (2, 3)))
    space.seed(0)
    observations = [space.sample() for _ in range(5)]
    batch = concatenate(space, observations, create_empty_array(space, 5))
    encoders: list[Any] = [dense, dense.columns()]
    for encoder in filter(None, encoders):
        rows, expected = (np.full((5, encoder.width), 7, encoder.dtype) for _ in range(2))
        for row, observation in zip(expected, observations, strict=True):
            encoder.encode_into(row, observation)
        assert encoder.encode_batch(rows, batch) == {}
        assert np.array_equal(rows, expected)


def test_what_does_not_fit_in_a_batch_is_named_by_its_place() -> None:
    encoder = ObservationEncoder(describe_observations(spaces.MultiDiscrete([2, 3])))
    rows = np.full((3, 5), 7, np.float32)
    problems = encoder.encode_batch(rows, np.array([[1, 2], [0, 3], [-1, 0]]))
    assert list(problems) == [1, 2] and "[0, 3] lies outside its space: [0, 0] to [1, 2]" in problems[1]
    assert rows[0].tolist() == [0, 1, 0, 0, 1]
    for wrong, message in (
        (np.zeros((2, 2), int), r"shape \(2, 2\), expected \(3, 2\)"),
        (np.zeros((3, 2)), "whole numbers"),
        (None, "shape"),
    ):
        with pytest.raises(ValueError, match=message):
            encoder.encode_batch(rows, wrong)


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


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(40, start=-5),
        spaces.MultiDiscrete([5, 49, 49], start=[3, 0, -7]),
        spaces.MultiDiscrete(np.full((2, 2), 20)),
        spaces.Dict({"a": spaces.Discrete(30), "b": spaces.Tuple([spaces.MultiDiscrete([4, 60], start=[1, 2])])}),
    ],
)
def test_columns_are_where_the_one_hot_row_is_1(space: Any) -> None:
    encoder = ObservationEncoder(describe_observations(space))
    columns = encoder.columns()
    assert columns is not None
    space.seed(0)
    for _ in range(50):
        observation = space.sample()
        row, named = np.zeros(encoder.size, np.float32), np.zeros(columns.width, columns.dtype)
        encoder.encode_into(row, observation)
        columns.encode_into(named, observation)
        assert named.tolist() == np.flatnonzero(row).tolist()
        assert columns.problem(named) is None


@pytest.mark.parametrize(
    "space", [spaces.Discrete(8), spaces.Box(0, 1, (40,)), spaces.Tuple([spaces.Discrete(90), spaces.Box(0, 1)])]
)
def test_columns_are_for_choices_among_many_alone(space: Any) -> None:
    assert ObservationEncoder(describe_observations(space)).columns() is None


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


def test_parts_are_encoded_one_after_another() -> None:
    space = spaces.Dict(
        {"b": spaces.Tuple((spaces.Discrete(3, start=5), spaces.Box(-1, 1, (2, 2)))), "a": spaces.MultiBinary(2)}
    )
    assert encode(space, {"a": [1, 0], "b": (6, [[1, 2], [3, 4]])}) == [1, 0, 0, 1, 0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match=r"observation\['b'\]\[1\] is missing"):
        encode(space, {"a": [1, 0], "b": (6,)})
    with pytest.raises(ValueError, match=r"observation\['b'\]\[0\] \[9\] lies outside"):
        encode(space, {"a": [1, 0], "b": (9, [[1, 2], [3, 4]])})


def test_an_image_runs_from_zero_to_one_and_is_not_scaled() -> None:
    space = spaces.Dict({"i": spaces.Box(0, 255, (2, 2), np.uint8), "v": spaces.Box(0, 255, (2,), np.uint8)})
    encoder = ObservationEncoder(describe_observations(space, image_dimensions=(2, 3)))
    row = np.zeros(6, np.float32)
    encoder.encode_into(row, {"i": np.full((2, 2), 51, np.uint8), "v": np.full(2, 51, np.uint8)})
    np.testing.assert_allclose(row, [0.2, 0.2, 0.2, 0.2, 51, 51])
    assert encoder.images == [(0, (2, 2))]
    assert encoder.scalable.tolist() == [False] * 4 + [True] * 2


def test_nested_actions_come_back_as_their_space_has_them() -> None:
    space = spaces.Dict(
        {
            "pair": spaces.Tuple((spaces.Box(-2, 2, (2,), np.float32), spaces.Discrete(3, start=1))),
            "flags": spaces.MultiBinary([2, 2]),
            "gears": spaces.MultiDiscrete([2, 5]),
        }
    )
    decoder = ActionDecoder(describe_actions(space))
    # All choices in the order of the parts (flags, gears, pair[1]), then all numbers.
    row = np.array([[1, 0, 0, 1, 1, 4, 2, 0.5, 9.0]], np.float32)
    action = decoder.decode(row)[0]
    assert space.contains(action)
    assert action["flags"].tolist() == [[1, 0], [0, 1]]
    assert action["gears"].tolist() == [1, 4]
    assert action["pair"][0].tolist() == [1.0, 2.0]
    assert action["pair"][1] == 3


def test_a_squashed_box_nears_its_bounds_and_leaves_unbounded_entries_alone() -> None:
    space = spaces.Box(np.array([-2.0, -np.inf]), np.array([4.0, np.inf]), dtype=np.float64)
    decode = ActionDecoder(describe_actions(space, squash=True)).decode
    np.testing.assert_allclose(decode(np.array([[0.0, 7.0]]))[0], [1.0, 7.0])
    np.testing.assert_allclose(decode(np.array([[1.0, 0.0]]))[0], [1 + 3 * np.tanh(1), 0.0])


def test_a_mask_is_taken_out_of_what_the_network_sees() -> None:
    space = spaces.Dict({"action_mask": spaces.MultiBinary(3), "x": spaces.Box(0, 1, (2,))})
    actions = describe_actions(spaces.Discrete(3))
    observations = with_mask(describe_observations(space), actions)
    assert ObservationEncoder(observations).size == 2
    mask = MaskReader(observations, actions).read({"action_mask": [0, 1, 1], "x": [0, 0]}, {})
    assert mask is not None and mask.tolist() == [False, True, True]
    with pytest.raises(UnsupportedSpaceError, match="has 3 entries; expected 4"):
        with_mask(describe_observations(space), describe_actions(spaces.Discrete(4)))
    assert with_mask(describe_observations(space), describe_actions(spaces.Box(0, 1, (2,)))) == (
        describe_observations(space)
    )


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ([1, 1, 1], "has 3 entries; expected 5"),
        ([0, 0, 1, 1, 1], r"allows nothing: \[0, 0, 1, 1, 1\]"),
        (([1, 0], [0, 0, 0]), "allows nothing"),
    ],
)
def test_masks_that_cannot_be(mask: Any, message: str) -> None:
    reader = MaskReader({}, describe_actions(spaces.MultiDiscrete([2, 3])))
    with pytest.raises(ValueError, match=message):
        reader.read(None, {"action_mask": mask})
    assert reader.read(None, {"action_mask": ([0, 1], [1, 0, 1])}).tolist() == [False, True, True, False, True]  # type: ignore[union-attr]
    assert reader.read(None, {}) is None


def test_spaces_without_an_encoding_are_named() -> None:
    with pytest.raises(UnsupportedSpaceError, match=r"observation space Text.*expected Box"):
        describe_observations(spaces.Text(4))
    with pytest.raises(UnsupportedSpaceError, match=r"action space Text.*\(part action\['a'\]\).*expected Box"):
        describe_actions(spaces.Dict({"a": spaces.Text(4)}))
