"""Action masks on RLlib: heeded by PPO and DQN, refused by all others before anything is trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from muster import load_policy
from muster.errors import ExperimentError, InputError
from muster.experiment import Override, load_experiment
from muster.runs.metrics import read_metrics
from muster.training.checking import check_experiment
from tests.engines.rllib.runs import small
from tests.puzzles import NUMBERS, Masked


@pytest.mark.parametrize(
    ("algorithm", "simulator", "config"),
    [
        ("PPO", "Masked", {}),
        ("PPO", "Masked", {"where": "observation"}),
        ("PPO", "MaskedPair", {}),
        ("PPO", "SeldomMasked", {}),
        pytest.param("DQN", "Masked", {}, marks=pytest.mark.long),
        ("DQN", "SeldomMasked", {}),
    ],
)
def test_what_a_mask_forbids_is_never_done(
    algorithm: str, simulator: str, config: dict[str, str], tmp_path: Path
) -> None:
    result = small(f"tests.puzzles:{simulator}", tmp_path, algorithm=algorithm, env__config=config)
    rows = read_metrics(tmp_path / "run" / "metrics.csv")
    assert [row["failures/simulator"] for row in rows] == ["0", "0"]
    assert int(rows[-1]["episodes"]) > 0
    policy = load_policy(result.run)
    if simulator != "Masked":
        return
    masked = Masked(**config)
    observation, info = masked.reset(seed=3)
    rng = np.random.default_rng(0)
    for _ in range(30):
        action = policy.act(observation, mask=info.get("action_mask"), deterministic=False, rng=rng)
        assert masked.mask[action]
        observation, *_, info = masked.step(action)


def test_a_trained_policy_follows_the_mask_it_is_given(tmp_path: Path) -> None:
    policy = load_policy(small("tests.puzzles:Masked", tmp_path).run)
    for choice in range(NUMBERS + 2):
        mask = np.zeros(NUMBERS + 2, np.int8)
        mask[choice] = 1
        assert policy.act(1, mask=mask) == choice


@pytest.mark.parametrize("algorithm", ["APPO", "IMPALA", "SAC"])
def test_an_algorithm_that_does_not_heed_masks_is_refused_before_training(algorithm: str, tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match=f"it gives action masks, which {algorithm} does not heed on RLlib"):
        small("tests.puzzles:Masked", tmp_path, algorithm=algorithm)
    assert not (tmp_path / "run").exists()


def test_check_refuses_what_training_does() -> None:
    algorithm = [Override("algorithm.name", "SAC", "--set")]
    findings = check_experiment(load_experiment("tests.puzzles:Masked", algorithm))
    problems = [finding.message for finding in findings if finding.verdict == "problem"]
    assert problems == ["it gives action masks, which SAC does not heed on RLlib"]


def test_networks_that_do_not_heed_masks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="does not heed action masks with a network for images"):
        small("tests.puzzles:MaskedImage", tmp_path)
    own = "examples.ratio.ratio_model:RatioModel"
    with pytest.raises(ExperimentError, match="heeds action masks with its own network only"):
        small("tests.puzzles:Masked", tmp_path, model__class=own)


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_mask_that_comes_late_is_no_failure_of_the_simulator(workers: int, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="first action mask at step 3 of an episode, and none when it was looked"):
        small("tests.puzzles:MaskedLate", tmp_path, resources__workers=workers)
    assert not (tmp_path / "run" / "failures").exists()


@pytest.mark.long
def test_dqn_explores_where_all_observations_are_zero(tmp_path: Path) -> None:
    assert small("tests.puzzles:AllZeros", tmp_path, algorithm="DQN", model__hidden=[8, 8]).steps == 2000
