"""Simulators of packages, unmodified and by their own names: checked, trained in, and named in hints."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from muster import load_policy, train
from muster.errors import ExperimentError
from muster.experiment.loading import Override, load_experiment
from muster.simulators.lookup import find_simulator
from muster.simulators.registrations import registering_module
from muster.simulators.verdict import Verdict
from muster.training import TrainOptions
from muster.training.checking import check_experiment
from tests.commands import muster

SMALL: dict[str, Any] = {
    "resources.workers": 0,
    "resources.env_groups": 1,
    "resources.envs_per_group": 2,
    "algorithm.train_batch_size": 32,
    "algorithm.minibatch_size": 16,
    "algorithm.num_epochs": 1,
    "stop.iterations": 1,
    "checkpoint.simulators": False,
    "name": "run",
}
QUICK_HIGHWAY = {"config": {"vehicles_count": 4, "duration": 6, "simulation_frequency": 5}}
ATARI = [
    {"class": "gymnasium.wrappers:AtariPreprocessing", "frame_skip": 4},
    {"class": "gymnasium.wrappers:FrameStackObservation", "stack_size": 4},
]
RAM = {"obs_type": "ram"}

PACKAGES = [
    pytest.param("highway_env", "highway_env:highway-v0", {"env.config": QUICK_HIGHWAY}, id="highway-env"),
    pytest.param(
        "highway_env",
        "highway-v0",
        {"env.import": ["highway_env"], "env.config": QUICK_HIGHWAY},
        id="highway-env, imported",
    ),
    pytest.param(
        "minigrid",
        "minigrid:MiniGrid-Empty-5x5-v0",
        {"env.wrappers": ["minigrid.wrappers:FlatObsWrapper"]},
        id="minigrid, flat",
    ),
    pytest.param(
        "minigrid",
        "minigrid:MiniGrid-Empty-5x5-v0",
        {"env.wrappers": ["minigrid.wrappers:ImgObsWrapper"]},
        id="minigrid, image",
    ),
    pytest.param(
        "minigrid",
        "MiniGrid-Empty-5x5-v0",
        {
            "env.import": ["minigrid"],
            "env.wrappers": [
                {"class": "gymnasium.wrappers:FilterObservation", "filter_keys": ["image", "direction"]}
            ],
        },
        id="minigrid, without mission",
    ),
    pytest.param("ale_py", "ale_py:ALE/Pong-v5", {"env.config": RAM}, id="ale-py, RAM"),
    pytest.param(
        "ale_py",
        "ALE/Breakout-v5",
        {"env.import": ["ale_py"], "env.config": {"frameskip": 1}, "env.wrappers": ATARI},
        id="ale-py, stacked images",
    ),
    pytest.param("mobile_env", "mobile_env:mobile-small-central-v0", {}, id="mobile-env"),
    pytest.param("mujoco", "Hopper-v5", {}, id="MuJoCo"),
]
CHECKED = ("highway-env", "minigrid, flat", "ale-py, stacked images", "mobile-env", "MuJoCo")
"""Checking takes seconds, so it is done once for each package."""


@pytest.mark.parametrize(("package", "target", "settings"), PACKAGES)
def test_a_package_s_simulator_passes_the_check_and_is_trained_in(
    package: str, target: str, settings: dict[str, Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    pytest.importorskip(package)
    result = train(target, overrides={**SMALL, **settings}, options=TrainOptions(runs_dir=tmp_path))
    assert (result.state, result.iterations) == ("finished", 1)
    assert not (tmp_path / "run" / "failures").exists()
    if request.node.callspec.id in CHECKED:
        overrides = [Override(key, value, "the test") for key, value in settings.items()]
        findings = {found.subject: found for found in check_experiment(load_experiment(target, overrides))}
        assert {found.verdict for found in findings.values()} <= {Verdict.OK, Verdict.WARNING}
    if "stack_size" in str(settings):
        assert findings["images"].message.startswith("observation: 84 x 84 pixels; 4 channels or stacked frames")
        assert result.checkpoint is not None
        policy: Any = load_policy(result.checkpoint, trust=True)
        first = next(part for part in policy.module.modules() if type(part).__name__ == "Conv2d")
        assert (first.in_channels, first.out_channels) == (4, 32)


def test_what_cannot_be_encoded_says_how_to_leave_it_out(tmp_path: Path) -> None:
    pytest.importorskip("minigrid")
    with pytest.raises(ExperimentError) as caught:
        train("minigrid:MiniGrid-Empty-5x5-v0", overrides=SMALL, options=TrainOptions(runs_dir=tmp_path))
    assert "(part observation['mission']) is not supported" in str(caught.value)
    assert 'gymnasium.wrappers:FilterObservation", filter_keys = ["direction", "image"]' in str(caught.value)


NAMES = [
    ("highway_env", "highway-v0"),
    ("highway_env", "racetrack-v0"),
    ("minigrid", "MiniGrid-Empty-5x5-v0"),
    ("minigrid", "BabyAI-GoToRedBall-v0"),
    ("ale_py", "ALE/Pong-v5"),
    ("ale_py", "PongNoFrameskip-v4"),
    ("mobile_env", "mobile-small-central-v0"),
    ("envpool", "Hopper-v5"),
]


@pytest.mark.parametrize(("module", "identifier"), NAMES)
def test_the_module_that_registers_an_id_is_found(module: str, identifier: str) -> None:
    if find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    assert registering_module(identifier) == module


@pytest.mark.parametrize("identifier", ["CartPole-v7", "nosuch-v0", "Guess-v0"])
def test_no_module_is_named_for_what_nobody_registers(identifier: str) -> None:
    assert registering_module(identifier) is None


@pytest.mark.parametrize(
    ("module", "identifier", "hint"),
    [
        ("highway_env", "highway-v0", 'env.import = ["highway_env"], or env.id = "highway_env:highway-v0"'),
        ("envpool", "AdroitHandDoor-v1", 'EnvPool has it: env.id = "envpool:AdroitHandDoor-v1"'),
    ],
)
def test_a_name_whose_package_is_not_imported_is_explained(
    module: str, identifier: str, hint: str, tmp_path: Path
) -> None:
    if find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    done = muster("train", identifier, cwd=tmp_path)
    assert done.returncode == 2
    assert hint in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("module", "identifier", "message"),
    [
        (
            "highway_env",
            "highway_env:higway-v0",
            "no simulator 'higway-v0'.*did you mean highway-v0",
        ),
        ("muster", "no_such_package:Thing-v0", "env.id: no module 'no_such_package'"),
    ],
)
def test_a_name_that_its_package_does_not_know_is_explained(module: str, identifier: str, message: str) -> None:
    if find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    with pytest.raises(ExperimentError, match=f"(?s){message}"):
        find_simulator(identifier)


def test_a_module_that_cannot_be_imported_is_explained() -> None:
    with pytest.raises(ExperimentError, match=r"env.import: no module 'no_such_package'"):
        find_simulator("CartPole-v1", imports=["no_such_package"])
