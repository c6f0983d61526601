"""Every kind of space is learned: tasks that only the right encoding can solve, trained in process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muster import load_policy, train
from muster.simulators.simulator import Simulator
from muster.stepping.evaluation import EvaluationTask, evaluate_here
from muster.stepping.failures import Supervision
from muster.stepping.rules import Rules
from muster.training import TrainOptions

SOLVED = 9.5
NEARLY_SOLVED = 8.5
SHORT = {
    "resources.workers": 0,
    "resources.env_groups": 2,
    "resources.envs_per_group": 8,
    "algorithm.lr": 1e-3,
    "algorithm.gamma": 0.0,
    "algorithm.train_batch_size": 1024,
    "algorithm.minibatch_size": 128,
    "stop.return": 9.6,
    "checkpoint.every": 1000,
}
EXPLORING: dict[str, Any] = {"algorithm__entropy_coeff": 0.03, "algorithm__lr_schedule": "constant"}


def learned(name: str, folder: Path, steps: int = 40_000, **settings: Any) -> float:
    """Train on a puzzle, load what was learned, and return its mean return; no failure may happen."""
    config = settings.pop("config", {})
    overrides = {
        **SHORT,
        "name": "run",
        "stop.steps": steps,
        **{key.replace("__", "."): v for key, v in settings.items()},
    }
    overrides |= {"env.config": config} if config else {}
    result = train(f"tests.puzzles:{name}", overrides=overrides, options=TrainOptions(runs_dir=folder))
    assert result.state == "finished"
    assert not list((folder / "run" / "failures").glob("*")), "the simulator failed"
    policy = load_policy(folder / "run")
    task = EvaluationTask(Simulator(f"tests.puzzles:{name}", config), Rules(), 20, seed=1)
    return evaluate_here(policy, task, Supervision(print)).return_mean


@pytest.mark.parametrize("name", ["InDict", "InTuple", "InNested", "InGrid", "ByBits", "MaskedPair"])
def test_spaces_of_parts_and_grids_are_learned(name: str, tmp_path: Path) -> None:
    assert learned(name, tmp_path, **EXPLORING) > SOLVED


@pytest.mark.parametrize("where", ["info", "observation"])
@pytest.mark.parametrize("algorithm", ["PPO", "TRPO"])
def test_forbidden_actions_are_never_tried(where: str, algorithm: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"algorithm__name": algorithm, "config": {"where": where}}
    settings |= {"algorithm__target_kl": 0.05} if algorithm == "TRPO" else EXPLORING
    assert learned("Masked", tmp_path, **settings) > SOLVED


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("ByParts", {}),
        ("ByPosition", {}),
        ("ByPosition", {"algorithm__action_bounds": "squash"}),
        ("ByPosition", {"algorithm__use_sde": True, "algorithm__sde_sample_freq": 4}),
    ],
    ids=["choices and numbers", "clipped", "squashed", "state-dependent"],
)
def test_numbers_are_aimed(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    assert learned(name, tmp_path, stop__return=NEARLY_SOLVED, **settings) > NEARLY_SOLVED


@pytest.mark.parametrize("name", ["InImage", "InImageAndDict"])
def test_images_are_learned_with_a_convolutional_network(name: str, tmp_path: Path) -> None:
    assert learned(name, tmp_path, algorithm__num_epochs=4, algorithm__train_batch_size=512) > SOLVED
    assert '"kind": "torch"' in (tmp_path / "run" / "checkpoints" / "latest" / "policy.json").read_text()


def test_a_policy_heeds_the_mask_that_it_is_given(tmp_path: Path) -> None:
    learned("Masked", tmp_path, steps=1_000)
    policy = load_policy(tmp_path / "run")
    for only in range(6):
        mask = np.arange(6) == only
        assert policy.act(0, mask=mask) == only
        assert policy.act(0, mask=mask, deterministic=False) == only
    with pytest.raises(ValueError, match="allows nothing"):
        policy.act(0, mask=np.zeros(6))
