"""Finding the user's simulator by every kind of name."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from muster.errors import ExperimentError
from muster.simulators.simulator import Simulator
from muster.stepping.building import build

OWN = """
import gymnasium
from helper_of_own import LIMIT

class Own(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(LIMIT)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, size=1, render_mode=None):
        self.size, self.render_mode = size, render_mode
"""


@pytest.fixture
def own_file(tmp_path: Path) -> Path:
    (tmp_path / "helper_of_own.py").write_text("LIMIT = 3\n")
    path = tmp_path / f"own_{tmp_path.name}.py"
    path.write_text(OWN)
    return path


def test_a_registered_id_with_config_and_time_limit() -> None:
    env = build(Simulator("CartPole-v1", {"sutton_barto_reward": True}, max_episode_steps=7))
    assert env.unwrapped._sutton_barto_reward is True  # type: ignore[attr-defined]
    assert env.spec is not None
    assert env.spec.max_episode_steps == 7
    assert Simulator("CartPole-v1").reward_threshold() == 475


def test_a_class_a_function_and_a_single_config_dict() -> None:
    assert build(Simulator("tests.toys:Guess", {"choices": 5})).action_space.n == 5  # type: ignore[attr-defined]
    assert build(Simulator("tests.toys:make_guess")).action_space.n == 4  # type: ignore[attr-defined]
    assert build(Simulator("tests.toys:Configured", {"choices": 6})).action_space.n == 6  # type: ignore[attr-defined]
    assert Simulator("tests.toys:Guess").reward_threshold() is None


def test_a_file_with_a_neighbour_that_it_imports(own_file: Path) -> None:
    env = build(Simulator(f"{own_file}:Own", {"size": 4}), render_mode="human")
    assert (env.unwrapped.size, env.render_mode) == (4, "human")  # type: ignore[attr-defined]
    assert type(env.unwrapped).__module__ == own_file.stem
    again = build(Simulator(f"{own_file}:Own"))
    assert type(again.unwrapped) is type(env.unwrapped)


def test_wrappers_and_a_time_limit() -> None:
    wrappers: list[str | dict[str, Any]] = [
        "gymnasium.wrappers:RecordEpisodeStatistics",
        {"class": "gymnasium.wrappers:TimeLimit", "max_episode_steps": 2},
    ]
    env = build(Simulator("tests.toys:Guess", {}, wrappers, max_episode_steps=5))
    env.reset(seed=0)
    assert env.step(0)[3] is False
    assert env.step(0)[3] is True


def test_a_module_is_found_in_the_given_folders(own_file: Path) -> None:
    assert str(own_file.parent) not in sys.path
    simulator = Simulator(f"{own_file.stem}:Own", paths=[str(own_file.parent)])
    assert not simulator.is_batched()
    build(simulator)


@pytest.mark.parametrize(
    ("identifier", "message"),
    [
        ("CartPol-v1", "did you mean CartPole-v1"),
        ("nosuch-v0", "no simulator 'nosuch-v0' is registered"),
        ("tests.toys:Gess", "did you mean 'Guess'"),
        ("no_such_module:Class", "no module 'no_such_module'"),
        ("nowhere/file.py:Class", "no such file: nowhere/file.py"),
        ("tests.toys:", "expected module:Class"),
    ],
)
def test_what_cannot_be_found_is_explained(identifier: str, message: str) -> None:
    with pytest.raises(ExperimentError, match=message):
        build(Simulator(identifier))


def test_an_import_that_fails_names_its_own_line(tmp_path: Path) -> None:
    path = tmp_path / "broken_simulator.py"
    path.write_text("x = 1\nimport no_such_dependency\n")
    with pytest.raises(ExperimentError, match=r"No module named 'no_such_dependency' \(.*broken_simulator.py:2\)"):
        build(Simulator(f"{path}:Thing"))


NO_SIMULATORS = """
class Thing:
    pass

class Chess:
    possible_agents = ["white", "black"]
    def observation_space(self, agent): ...
    def action_space(self, agent): ...
    def reset(self, seed=None, options=None): ...
    def step(self, actions): ...

class Suite:
    def observation_spec(self): ...
    def action_spec(self): ...
    def reset(self): ...
    def step(self, action): ...
"""


@pytest.mark.parametrize("limit", [None, 7])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Thing", r"gives a Thing, expected a gymnasium.Env"),
        ("Chess", r"gives a Chess with several agents \(PettingZoo\); muster trains one agent"),
        ("Suite", r"(?s)gives a Suite with the interface of dm_env.*shimmy:DmControlCompatibilityV0"),
    ],
)
def test_something_else_than_an_environment_is_refused(
    name: str, message: str, limit: int | None, tmp_path: Path
) -> None:
    path = tmp_path / f"no_simulators_{tmp_path.name}.py"
    path.write_text(NO_SIMULATORS)
    with pytest.raises(ExperimentError, match=message):
        build(Simulator(f"{path}:{name}", max_episode_steps=limit))


@pytest.mark.parametrize("vectorized", [None, True])
def test_the_cpus_of_a_simulator_are_told_to_its_libraries(
    vectorized: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    build(Simulator("CartPole-v1", vectorized=vectorized))
    assert os.environ["OMP_NUM_THREADS"] == "1"
    build(Simulator("CartPole-v1", vectorized=vectorized, cpus=3))
    assert os.environ["OMP_NUM_THREADS"] == os.environ["MKL_NUM_THREADS"] == "3"


def test_a_creator_that_takes_any_keyword_gets_the_render_mode(tmp_path: Path) -> None:
    path = tmp_path / f"creators_{tmp_path.name}.py"
    path.write_text(
        "import gymnasium\n"
        "def make(**kwargs):\n"
        "    return gymnasium.make('CartPole-v1', **kwargs)\n"
        "def plain():\n"
        "    return gymnasium.make('CartPole-v1')\n"
    )
    assert build(Simulator(f"{path}:make"), "rgb_array").render_mode == "rgb_array"
    assert build(Simulator(f"{path}:make")).render_mode is None
    assert build(Simulator(f"{path}:plain"), "rgb_array").render_mode is None
