"""The keys of `[algorithm]` and `[model]` on RLlib: every mistake at once, before anything is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster import load_policy, train
from muster.errors import ExperimentError, InputError
from muster.experiment import load_experiment
from muster.experiment.schema import RLlibPPOSection
from muster.training import TrainOptions
from tests.commands import ROOT
from tests.engines.rllib.runs import small

BAD = """[env]
id = "CartPole-v1"

[algorithm]
name = "dqn"
learning_rate = 1e-3
train_batch_sise = 32
double_q = "yes"
lr = "fast"

[algorithm.rllib]
num_env_runners = 3
rollout_fragmentlength = 4

[normalize]
observations = true
"""
MODEL_CLASS = "examples/ratio/ratio_model.py:GearModule"


def test_every_mistake_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(BAD)
    with pytest.raises(ExperimentError) as caught:
        train(path, options=TrainOptions(runs_dir=tmp_path / "runs"))
    text = str(caught.value)
    for expected in (
        "bad.toml: 7 problems",
        "bad.toml:6: algorithm.learning_rate: [algorithm] of DQN has no key 'learning_rate'",
        "bad.toml:7: algorithm.train_batch_sise: [algorithm] of DQN has no key 'train_batch_sise'",
        "did you mean 'train_batch_size'?",
        "bad.toml:8: algorithm.double_q: 'yes': expected true or false",
        "bad.toml:9: algorithm.lr: 'fast': expected a number",
        "bad.toml:12: algorithm.rllib.num_env_runners: is not set here, but by resources.workers",
        "bad.toml:13: algorithm.rllib.rollout_fragmentlength: RLlib's config of DQN has no key",
        "did you mean 'rollout_fragment_length'?",
        "bad.toml:16: normalize.observations: cannot be on with DQN",
    ):
        assert expected in text
    assert not (tmp_path / "runs").exists()


def test_what_rllib_itself_refuses_is_told(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match=r"RLlib refuses: `minibatch_size` \(4000\) must be <="):
        small("CartPole-v1", tmp_path, algorithm__minibatch_size=4000)
    with pytest.raises(ExperimentError, match="RLlib's PPO does not end epochs early"):
        small("CartPole-v1", tmp_path, algorithm__target_kl=0.1)


def test_simulators_that_muster_could_not_look_after_are_refused(tmp_path: Path) -> None:
    settings = {"evaluation_interval": 1, "create_env_on_local_worker": True, "gym_env_vectorize_mode": "ASYNC"}
    with pytest.raises(ExperimentError, match=r"3 problems(.|\n)*evaluation_interval: is not set here, but by"):
        small("CartPole-v1", tmp_path, algorithm__rllib=settings)


def test_the_same_ppo_file_means_the_same_on_both_engines() -> None:
    from muster.engines.rllib.config import Subject, make_model_config

    experiment = load_experiment(str(ROOT / "examples" / "ratio" / "ratio.toml")).experiment
    table = experiment.as_table()
    table["algorithm"] |= {"engine": "rllib", "kl_coeff": 0.3}
    experiment = type(experiment).model_validate(table)
    assert isinstance(experiment.algorithm, RLlibPPOSection)
    discrete = {"kind": "discrete", "n": 3, "start": 0}
    config = make_model_config(Subject(experiment, discrete, discrete))
    # The learning rate falls to zero at the end of the file's 200,000 steps.
    assert (config.lr[0], config.lr[1][1]) == ([0, 3e-4], 0.0)
    assert (config.gamma, config.lambda_, config.kl_coeff) == (1.0, 0.95, 0.3)
    assert (config.total_train_batch_size, config.minibatch_size, config.num_epochs) == (2048, 64, 10)
    assert (config.clip_param, config.vf_loss_coeff, config.entropy_coeff) == (0.2, 0.5, 0.0)
    assert (config.grad_clip, config.use_kl_loss, config.vf_clip_param) == (0.5, False, float("inf"))


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_module_of_one_s_own(workers: int, tmp_path: Path, ray_with_four_cpus: None) -> None:
    changes: dict[str, Any] = {"model__class": str(ROOT / MODEL_CLASS), "resources__workers": workers}
    small(str(ROOT / "examples" / "ratio" / "ratio.toml"), tmp_path, **changes)
    policy = load_policy(tmp_path / "run")
    assert 0 <= policy.act([0, 0, 0, 0, 0]) < 49
    with pytest.raises(ExperimentError, match=r"model\.class: is a network for RLlib(.|\n)*--engine rllib"):
        train(
            "CartPole-v1",
            overrides={"model.class": str(ROOT / MODEL_CLASS)},
            options=TrainOptions(runs_dir=tmp_path),
        )


def test_a_class_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match=r"model.class: no module 'no_such'"):
        small("CartPole-v1", tmp_path, model__class="no_such:Module")


def test_without_the_extra_the_one_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "muster.engines.rllib.plan", None)
    with pytest.raises(InputError, match=r"pip install '\.\[rllib\]'"):
        small("CartPole-v1", tmp_path)
    monkeypatch.setitem(sys.modules, "muster.engines.rllib.policy", None)
    (tmp_path / "policy.json").write_text('{"kind": "rllib"}')
    with pytest.raises(InputError, match=r"pip install '\.\[rllib\]'"):
        load_policy(tmp_path)
