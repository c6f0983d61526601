"""Simulators of the old Gym: adapted where that loses nothing, refused with the reason otherwise."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from muster import train
from muster.simulators.simulator import Simulator
from muster.stepping.building import build
from muster.stepping.checking import check_simulator
from muster.stepping.old_gym import OldGymAdapter, converted
from muster.stepping.rules import Rules
from muster.training import TrainOptions


class Box:
    """Looks like the old Gym's."""

    def __init__(self, low: float, high: float, shape: tuple[int, ...]) -> None:
        self.low, self.high = np.full(shape, low), np.full(shape, high)
        self.shape, self.dtype = shape, np.dtype(np.float32)


class Discrete:
    def __init__(self, n: int) -> None:
        self.n = n


class Tuple:
    def __init__(self, parts: list[Any]) -> None:
        self.spaces = parts


class Graph:
    """Has no counterpart."""


class Old:
    """An old simulator: episodes of five steps, cut by a time limit if it is told so."""

    observation_space, action_space = Box(-1, 1, (2,)), Discrete(2)

    def __init__(self, limited: bool = False) -> None:
        self.limited, self.random = limited, np.random.RandomState(0)
        self.closed, self.steps = False, 0

    def seed(self, seed: int) -> list[int]:
        self.random = np.random.RandomState(seed)
        return [seed]

    def reset(self) -> Any:
        self.steps = 0
        return self.random.uniform(-1, 1, 2).astype(np.float32)

    def step(self, action: int) -> tuple[Any, float, bool, dict[str, Any]]:
        self.steps += 1
        done = self.steps == 5
        info = {"TimeLimit.truncated": True} if done and self.limited else {}
        return self.random.uniform(-1, 1, 2).astype(np.float32), 1.0, done, info


class ThreeValues(Old):
    def step(self, action: int) -> Any:
        return super().step(action)[:3]


def played(limited: bool) -> tuple[bool, bool]:
    env = build(Simulator(f"{__name__}:Old", {"limited": limited}))
    first, info = env.reset(seed=3)
    again, _ = env.reset(seed=3)
    assert info == {} and np.array_equal(first, again)
    for _ in range(5):
        _, _, terminated, truncated, _ = env.step(0)
    return terminated, truncated


def test_an_end_is_told_from_a_time_limit() -> None:
    assert played(limited=False) == (True, False)
    assert played(limited=True) == (False, True)


def test_spaces_are_converted() -> None:
    space = converted(Tuple([Box(0, 1, (3,)), Discrete(4)]))
    assert space == spaces.Tuple([spaces.Box(0, 1, (3,)), spaces.Discrete(4)])
    assert converted(spaces.Discrete(2)) == spaces.Discrete(2)
    with pytest.raises(TypeError, match=r"test_old_gym.Graph is no space of Gymnasium's or the old Gym's"):
        converted(Graph())


def test_a_wrong_number_of_values_says_what_is_expected() -> None:
    env = OldGymAdapter(ThreeValues())
    env.reset(seed=0)
    with pytest.raises(TypeError, match="step returned 3 values, expected five: observation, reward"):
        env.step(0)


def test_check_says_that_it_is_adapted() -> None:
    findings = check_simulator(Simulator(f"{__name__}:Old"), Rules())
    assert [f.message for f in findings if "old Gym" in f.message], findings
    assert not [f for f in findings if f.verdict == "problem"]


def test_it_can_be_trained_in(tmp_path: Any) -> None:
    overrides = {"resources.workers": 0, "stop.iterations": 2, "name": "run", "env.max_episode_steps": 3}
    result = train(f"{__name__}:Old", overrides=overrides, options=TrainOptions(runs_dir=tmp_path))
    assert result.return_mean == 3


class FourValues(gymnasium.Env[Any, Any]):
    """Derives from Gymnasium's class, takes a seed, and returns what the old Gym's did."""

    observation_space, action_space = spaces.Box(-1, 1, (2,)), spaces.Discrete(2)

    def __init__(self, limited: bool = True) -> None:
        self.limited, self.steps = limited, 0

    def reset(self, *, seed: int | None = None) -> Any:  # type: ignore[override]
        super().reset(seed=seed)
        self.steps = 0
        return self.observe()

    def step(self, action: int) -> Any:
        self.steps += 1
        return self.observe(), 1.0, self.steps == 5, {"TimeLimit.truncated": self.limited}

    def observe(self) -> Any:
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)


class FourValuesUnseen(FourValues):
    """Its source does not show how many values it returns."""

    def step(self, action: int) -> Any:
        return super().step(action)


class FiveValues(FourValues):
    """As Gymnasium wants it."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.observe(), {}

    def step(self, action: int) -> Any:
        self.steps += 1
        return self.observe(), 1.0, self.steps == 5, False, {}


class OtherThreeValues(FourValues):
    def step(self, action: int) -> Any:
        return self.observe(), 1.0, True


def make_wrapped() -> gymnasium.Env[Any, Any]:
    return gymnasium.wrappers.TimeLimit(FourValues(limited=False), 3)


gymnasium.register("FourValues-v0", entry_point="tests.stepping.test_old_gym:FourValues", max_episode_steps=100)


@pytest.mark.parametrize("name", ["FourValues", "FourValuesUnseen"])
def test_four_values_of_a_gymnasium_class_are_adapted(name: str) -> None:
    for limited in (True, False):
        env = build(Simulator(f"tests.stepping.test_old_gym:{name}", {"limited": limited}))
        observation, info = env.reset(seed=3)
        assert (observation.shape, info) == ((2,), {})
        endings = [env.step(0)[2:4] for _ in range(5)]
        assert endings == [(False, False)] * 4 + [(not limited, limited)]


@pytest.mark.parametrize("name", ["tests.stepping.test_old_gym:make_wrapped", "FourValues-v0"])
def test_four_values_beneath_wrappers_are_adapted(name: str) -> None:
    env = build(Simulator(name))
    env.reset(seed=3)
    assert [len(env.step(0)) for _ in range(3)] == [5] * 3
    assert isinstance(env.unwrapped, FourValues)


def test_a_simulator_whose_source_shows_five_values_is_left_alone() -> None:
    assert type(build(Simulator("tests.stepping.test_old_gym:FiveValues"))) is FiveValues


def test_check_and_training_take_four_values(tmp_path: Any) -> None:
    findings = check_simulator(Simulator("tests.stepping.test_old_gym:FourValuesUnseen"), Rules())
    adapted = [f for f in findings if f.subject == "interface" and "old Gym" in f.message]
    assert [f.message.partition(":")[0].partition(",")[0] for f in adapted] == [
        "reset returns an observation alone",
        "step returns four values",
    ]
    assert {f.verdict for f in adapted} == {"warning"}
    assert not [f for f in findings if f.verdict == "problem"]
    seen = check_simulator(Simulator("tests.stepping.test_old_gym:FiveValues"), Rules())
    assert not [f for f in seen if "old Gym" in f.message]
    overrides = {"resources.workers": 0, "stop.iterations": 1, "algorithm.train_batch_size": 80}
    target = "tests.stepping.test_old_gym:FourValues"
    result = train(target, overrides=overrides, options=TrainOptions(runs_dir=tmp_path))
    assert (result.state, result.return_mean) == ("finished", 5.0)


def test_another_number_of_values_is_the_simulator_s_failure() -> None:
    findings = check_simulator(Simulator("tests.stepping.test_old_gym:OtherThreeValues"), Rules())
    messages = "".join(f.message for f in findings if f.verdict == "problem")
    assert "step must return observation, reward, terminated, truncated, info: it returned 3" in messages


class Unseeded(FiveValues):
    """All as it should be, but `reset` takes no seed."""

    def reset(self) -> Any:  # type: ignore[override]
        return super().reset(seed=None)


def test_a_reset_without_a_seed_is_all_that_is_named() -> None:
    findings = check_simulator(Simulator("tests.stepping.test_old_gym:Unseeded"), Rules())
    [found] = [f for f in findings if "old Gym" in f.message]
    assert found.message == "reset takes no seed, as in the old Gym; it is adapted"
    assert "reset(self, *, seed=None, options=None)" in found.hint


class ArrayReward(FiveValues):
    """Its reward is an array of one number."""

    def step(self, action: Any) -> Any:
        observation, reward, *rest = super().step(action)
        return observation, np.array([reward]), *rest


def test_a_reward_that_is_no_number_is_named() -> None:
    expected = "TypeError: reward has shape (1,), expected a number: return float(reward.item())"
    findings = check_simulator(Simulator("tests.stepping.test_old_gym:ArrayReward"), Rules())
    assert any(f.verdict == "problem" and expected in f.message for f in findings)


def test_a_simulator_that_an_older_version_saved_continues() -> None:
    env = OldGymAdapter(FiveValues())
    env.reset(seed=0)
    saved = {name: value for name, value in vars(env).items() if name != "seen"}
    restored = OldGymAdapter.__new__(OldGymAdapter)
    restored.__setstate__(saved)
    restored.reset(seed=0)
    assert len(restored.step(restored.action_space.sample())) == 5
