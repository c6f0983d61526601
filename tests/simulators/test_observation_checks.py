"""Observations that a learner must never see: which part of them is wrong, and how."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from muster.simulators.describing import describe_observations
from muster.simulators.encoding import ObservationEncoder
from muster.simulators.observation_checks import NumberCheck, check_for

PLANT = spaces.Dict(
    {
        "camera": spaces.Box(0, 255, (2, 2), np.uint8),
        "doors": spaces.MultiBinary(2),
        "mode": spaces.Discrete(3),
        "pumps": spaces.Tuple([spaces.Box(0, 1, (2,)), spaces.Dict({"heat": spaces.Box(-5, np.inf, (3,))})]),
    }
)


def plant(
    camera: Any = 0, doors: Any = (0, 1), mode: Any = 2, flow: Any = (0, 1), heat: Any = (-5, 0, 1e9)
) -> Any:
    image = np.full((2, 2), camera) if np.ndim(camera) == 0 else camera
    return {"camera": image, "doors": doors, "mode": mode, "pumps": (flow, {"heat": heat})}


def problem(observation: Any, *, bounds: bool = True, space: Any = PLANT) -> str | None:
    encoder = ObservationEncoder(describe_observations(space, image_dimensions=(2,)))
    check = NumberCheck(encoder, 2, bounds=bounds)
    rows = np.zeros((2, encoder.size), np.float32)
    encoder.encode_into(rows[1], observation)
    found = check.problem(rows[1])
    assert check.all_good(rows) == (found is None)
    return found


def test_what_is_within_its_bounds_is_good() -> None:
    assert problem(plant(camera=255)) is None
    assert problem(plant(flow=np.array([-1e-6, 1 + 1e-6]))) is None


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("camera", 300, "observation['camera'] lies outside its space: entry 0 is 300, expected 0 to 255 ("),
        ("doors", [1, 2], "observation['doors'] lies outside its space: entry 1 is 2, expected 0 to 1 ("),
        ("flow", [0, 7], "observation['pumps'][0] lies outside its space: entry 1 is 7, expected 0 to 1 ("),
        (
            "heat",
            [0, 0, -6],
            "observation['pumps'][1]['heat'] lies outside its space: entry 2 is -6, expected -5 to inf (",
        ),
    ],
)
def test_a_part_outside_its_bounds_is_named(part: str, value: Any, message: str) -> None:
    assert (problem(plant(**{part: value})) or "").startswith(message)
    assert problem(plant(**{part: value}), bounds=False) is None


def test_a_part_that_is_not_finite_is_named_before_one_that_is_outside() -> None:
    assert problem(plant(doors=[1, 2], heat=[0, np.nan, 0])) == "observation['pumps'][1]['heat'] is not finite"
    assert problem(plant(flow=[np.inf, 0]), bounds=False) == "observation['pumps'][0] is not finite"


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("heat", [0, 0], r"^observation\['pumps'\]\[1\]\['heat'\] has shape \(2,\), its space says \(3,\)"),
        (
            "heat",
            [*"abc"],
            r"^observation\['pumps'\]\[1\]\['heat'\] has dtype <U1, expected numbers: could",
        ),
        ("heat", [0, {}, 0], r"^observation\['pumps'\]\[1\]\['heat'\] has dtype object, expected numbers: float"),
        ("heat", [0, [1], 0], r"^observation\['pumps'\]\[1\]\['heat'\] is no array: setting an array element"),
        ("camera", 0.5, r"^observation\['camera'\] has dtype float64, its space says uint8"),
        ("mode", 0.5, r"^observation\['mode'\] has dtype float64, expected whole numbers"),
        ("mode", "on", r"^observation\['mode'\] has dtype <U2, expected whole numbers"),
        ("mode", 3, r"^observation\['mode'\] \[3\] lies outside its space: \[0\] to \[2\]"),
    ],
)
def test_a_part_of_a_wrong_shape_or_type_is_named(part: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        problem(plant(**{part: value}))


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        ({"gear": [0, 48], "mode": 29}, None),
        ({"gear": [0, 49], "mode": 0}, "observation['gear'] [0, 49] lies outside its space: [0, 0] to [48, 48]"),
        ({"gear": [-1, 0], "mode": 0}, "observation['gear'] [-1, 0] lies outside its space: [0, 0] to [48, 48]"),
        ({"gear": [0, 0], "mode": 30}, "observation['mode'] [30] lies outside its space: [0] to [29]"),
    ],
)
def test_columns_of_another_choice_are_named_as_the_choice_that_led_there(observation: Any, message: Any) -> None:
    space = spaces.Dict({"gear": spaces.MultiDiscrete([49, 49]), "mode": spaces.Discrete(30)})
    encoder = ObservationEncoder(describe_observations(space)).columns()
    assert encoder is not None
    check = check_for(encoder, 2, bounds=True)
    rows = np.tile(encoder.first, (2, 1))
    encoder.encode_into(rows[1], observation)
    assert check.problem(rows[1]) == message
    assert check.all_good(rows) == (message is None)


def test_a_box_on_its_own_needs_no_name() -> None:
    found = problem(np.array([0.0, 2.0]), space=spaces.Box(0, 1, (2,)))
    assert found is not None and found.startswith(
        "observation lies outside its space: entry 1 is 2, expected 0 to 1"
    )
