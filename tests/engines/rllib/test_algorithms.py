"""Each of RLlib's algorithms trains, is saved, goes on, and its policy acts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster import load_policy
from muster.experiment import load_experiment
from muster.runs.metrics import read_metrics
from muster.simulators.simulator import Simulator
from muster.stepping.evaluation import EvaluationTask, evaluate_here
from muster.stepping.failures import Supervision
from muster.stepping.rules import Rules
from tests.engines.rllib.runs import small

_REPLAY: dict[str, Any] = {
    "algorithm__num_steps_sampled_before_learning_starts": 60,
    "algorithm__train_batch_size": 16,
    "algorithm__rllib": {"min_sample_timesteps_per_iteration": 80},
}
# The entropy of an untrained policy in Pendulum is about -1, and so is the target that RLlib chooses: the weight
# may first rise or fall. With a target far below, it can only fall.
_ENTROPY: dict[str, Any] = {"algorithm__target_entropy": -20.0}
_ASYNCHRONOUS: dict[str, Any] = {
    "algorithm__train_batch_size": 100,
    "algorithm__rllib": {"min_sample_timesteps_per_iteration": 200},
}
_TINY_DREAMER: dict[str, Any] = {
    "algorithm__model_size": "nano",
    "algorithm__training_ratio": 4,
    "algorithm__batch_size_B": 2,
    "algorithm__batch_length_T": 8,
    "algorithm__horizon_H": 3,
    "algorithm__rllib": {"min_sample_timesteps_per_iteration": 60},
}
CASES = [
    ("DQN", "CartPole-v1", _REPLAY),
    ("SAC", "Pendulum-v1", {**_REPLAY, **_ENTROPY}),
    ("TQC", "Pendulum-v1", _REPLAY),
    ("APPO", "CartPole-v1", _ASYNCHRONOUS),
    ("IMPALA", "CartPole-v1", _ASYNCHRONOUS),
    ("DreamerV3", "CartPole-v1", _TINY_DREAMER),
]


_QUICK = ("DQN", "IMPALA")


@pytest.mark.parametrize(
    ("algorithm", "target", "settings"),
    [pytest.param(*case, id=case[0], marks=() if case[0] in _QUICK else pytest.mark.long) for case in CASES],
)
def test_trains_resumes_and_acts(
    algorithm: str, target: str, settings: dict[str, Any], tmp_path: Path, ray_with_four_cpus: None
) -> None:
    result = small(target, tmp_path, algorithm=algorithm, **settings)
    assert (result.state, result.iterations) == ("finished", 2)
    result = small(target, tmp_path, algorithm=algorithm, resume=True, **{**settings, "stop__iterations": 3})
    rows = read_metrics(tmp_path / "run" / "metrics.csv")
    assert [row["iteration"] for row in rows] == ["1", "2", "3"]
    assert rows[-1]["value/loss"] != ""
    if algorithm == "SAC":
        assert float(rows[2]["policy/entropy_weight"]) < float(rows[1]["policy/entropy_weight"]) < 1
    policy = load_policy(tmp_path / "run")
    task = EvaluationTask(Simulator(target, max_episode_steps=20), Rules(), 2, seed=0)
    assert evaluate_here(policy, task, Supervision(print)).length_mean > 5
    saved = load_experiment(tmp_path / "run" / "experiment.toml").experiment
    assert saved.algorithm.engine == "rllib"


def test_the_replay_buffer_is_saved_where_asked(tmp_path: Path, ray_with_four_cpus: None) -> None:
    settings = {**_REPLAY, "checkpoint__replay_buffer": True, "stop__iterations": 1}
    small("CartPole-v1", tmp_path, algorithm="DQN", **settings)
    assert (tmp_path / "run" / "checkpoints" / "latest" / "replay.pkl").is_file()
    settings |= {"stop__iterations": 2}
    result = small("CartPole-v1", tmp_path, algorithm="DQN", resume=True, **settings)
    assert result.iterations == 2
