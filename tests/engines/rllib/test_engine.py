"""RLlib as an engine: what it gets wrong by itself, put right."""

from __future__ import annotations

import json
import os
import pickle
import signal
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from muster import load_policy, train
from muster.engines.rllib import state
from muster.engines.rllib.train_thread import THREAD_NAME
from muster.errors import CheckpointError, ClusterError, NonFiniteUpdateError, SimulatorError
from muster.runs.checkpoints import verify
from muster.runs.files import read_json_lines
from muster.runs.metrics import read_metrics
from muster.training import TrainOptions
from muster.training.listener import Silence
from muster.training.progress import Progress
from tests.engines.rllib.runs import SMALL, SMALL_PPO, small


def saved_state(run: Path) -> dict[str, Any]:
    """Return RLlib's part of the newest checkpoint."""
    values = state.read(run / "checkpoints" / "latest")
    saved: dict[str, Any] = pickle.loads(values["rllib"])
    return saved


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.long)])
def test_a_simulator_that_always_fails_ends_the_run_with_its_own_traceback(
    workers: int, tmp_path: Path, ray_with_four_cpus: None
) -> None:
    with pytest.raises(SimulatorError, match="failed 3 times in a row: RuntimeError: the pump broke") as caught:
        small("tests.toys:Failing", tmp_path, resources__workers=workers)
    assert 'toys.py", line' in str(caught.value)
    assert "ray" not in str(caught.value)
    assert caught.value.result.exit_code == 3
    assert THREAD_NAME not in [thread.name for thread in threading.enumerate()]
    failure = json.loads((tmp_path / "run" / "failures" / "0001.json").read_text())
    assert (failure["error"], failure["step"]) == ("RuntimeError: the pump broke", 2)


@pytest.mark.long
def test_failures_between_episodes_are_counted_and_survived(tmp_path: Path, ray_with_four_cpus: None) -> None:
    result = small("tests.toys:Failing", tmp_path, env__config={"at": 25}, stop__iterations=3)
    row = read_metrics(tmp_path / "run" / "metrics.csv")[-1]
    assert result.iterations == 3
    assert int(row["failures/simulator"]) > 0
    with pytest.raises(SimulatorError, match=r"more than env.max_failures = 2"):
        small("tests.toys:Failing", tmp_path, env__config={"at": 25}, env__max_failures=2, name="impatient")


def test_episodes_and_steps_are_counted_by_what_the_simulators_did(
    tmp_path: Path, ray_with_four_cpus: None
) -> None:
    small("tests.toys:Guess", tmp_path, stop__iterations=1)
    row = read_metrics(tmp_path / "run" / "metrics.csv")[0]
    assert (row["steps"], row["length/mean"]) == ("80", "10.0")
    assert 6 <= int(row["episodes"]) <= 8


def test_resuming_on_another_number_of_workers_keeps_everything(tmp_path: Path, ray_with_four_cpus: None) -> None:
    changes: dict[str, Any] = {
        "algorithm__use_kl_loss": True,
        "algorithm__kl_coeff": 0.8,
        "algorithm__kl_target": 100.0,
    }
    small("CartPole-v1", tmp_path, **changes)
    before = saved_state(tmp_path / "run")
    coefficient = before["attributes"]["curr_kl_coeffs_per_module"]["default_policy"]
    assert coefficient < 0.8
    listened: list[str] = []

    class Listener(Silence):
        def noticed(self, message: str) -> None:
            listened.append(message)

    result = small(
        "CartPole-v1",
        tmp_path,
        resume=True,
        listener=Listener(),
        **{**changes, "resources__workers": 2, "stop__iterations": 3},
    )
    after = saved_state(tmp_path / "run")
    assert result.iterations == 3
    assert after["attributes"]["curr_kl_coeffs_per_module"]["default_policy"] == coefficient / 2
    assert after["algorithm"]["training_iteration"] == 3
    assert "new episodes begin" in listened[0]
    verify(tmp_path / "run" / "checkpoints" / "latest")


@pytest.mark.long
@pytest.mark.parametrize("algorithm", ["PPO", "DQN"])
def test_a_lost_env_runner_is_replaced_and_counted(
    algorithm: str, tmp_path: Path, ray_with_four_cpus: None
) -> None:
    class KillerUntilReplaced(Silence):
        def iterated(self, row: dict[str, Any], progress: Progress) -> None:
            if progress.iteration == 1:
                children = psutil.Process(os.getpid()).children(recursive=True)
                next(child for child in children if "SingleAgentEnvRunner" in child.name()).kill()
            if progress.worker_failures:
                os.kill(os.getpid(), signal.SIGUSR2)

    changes: dict[str, Any] = {
        "resources__workers": 2,
        "algorithm__rllib": {"min_sample_timesteps_per_iteration": 100},
        "stop__iterations": 5000,
        "listener": KillerUntilReplaced(),
    }
    result = small("tests.toys:Guess", tmp_path, algorithm=algorithm, **changes)
    assert result.exit_code == 75
    rows = read_metrics(tmp_path / "run" / "metrics.csv")
    assert (rows[0]["failures/worker"], rows[-1]["failures/worker"]) == ("0", "1")
    assert "worker lost" in [event["event"] for event in read_json_lines(tmp_path / "run" / "events.jsonl")]


@pytest.mark.long
def test_workers_that_die_again_and_again_end_the_run(tmp_path: Path, ray_with_four_cpus: None) -> None:
    with pytest.raises(SimulatorError, match=r"all workers died 3 times in a row(.|\n)*Try --workers 0"):
        small("tests.toys:Dying", tmp_path, resources__workers=1, stop__iterations=1000)


def test_an_update_that_is_not_finite_is_not_kept(
    tmp_path: Path, ray_with_four_cpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner

    real, calls = PPOTorchLearner.compute_loss_for_module, []

    def poisoned(self: Any, **arguments: Any) -> Any:
        calls.append(1)
        loss = real(self, **arguments)
        return loss * float("nan") if len(calls) > 8 else loss

    monkeypatch.setattr(PPOTorchLearner, "compute_loss_for_module", poisoned)
    with pytest.raises(NonFiniteUpdateError):
        small("tests.toys:Guess", tmp_path, stop__iterations=10)
    latest = tmp_path / "run" / "checkpoints" / "latest"
    assert 1 <= Progress.load(latest).iteration < 10
    with np.load(latest / "policy.npz") as arrays:
        assert all(np.isfinite(array).all() for array in arrays.values())


def test_more_workers_than_ray_has_is_told_at_once(tmp_path: Path, ray_with_four_cpus: None) -> None:
    with pytest.raises(ClusterError, match=r"asked for 9 workers, but .* has 4 CPUs"):
        small("tests.toys:Guess", tmp_path, resources__workers=9)


def test_from_takes_the_weights_of_another_run(tmp_path: Path, ray_with_four_cpus: None) -> None:
    small("tests.toys:Guess", tmp_path, name="old", algorithm__lr=0.01)
    overrides = {**SMALL, **SMALL_PPO, "name": "new", "stop.iterations": 1, "algorithm.lr": 1e-9}
    options = TrainOptions(runs_dir=tmp_path, weights_from="old")
    train("tests.toys:Guess", overrides=overrides, options=options)
    old, new = (np.load(tmp_path / name / "checkpoints/latest/policy.npz") for name in ("old", "new"))
    for name in old.files:
        np.testing.assert_allclose(new[name], old[name], atol=1e-4)
    with pytest.raises(CheckpointError, match="does not fit"):
        train("tests.toys:Guess", overrides={**overrides, "name": "x", "model.hidden": [9]}, options=options)


def test_a_policy_with_scales_acts_as_it_was_trained(tmp_path: Path, ray_with_four_cpus: None) -> None:
    small("CartPole-v1", tmp_path, stop__iterations=3)
    with np.load(tmp_path / "run" / "checkpoints" / "latest" / "policy.npz") as arrays:
        mean, std = arrays["observations/mean"], arrays["observations/std"]
    assert (std != 1).all() and (mean != 0).all()
    policy = load_policy(tmp_path / "run")
    assert policy.act(mean) in (0, 1)
    drawn = {policy.act(mean, deterministic=False, rng=np.random.default_rng(seed)) for seed in range(20)}
    assert drawn == {0, 1}


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_rollout_of_90_seconds_is_waited_for(tmp_path: Path, ray_with_four_cpus: None) -> None:
    changes: dict[str, Any] = {"resources__workers": 2, "resources__envs_per_group": 1, "stop__iterations": 1}
    changes |= {"env__config": {"seconds": 4.5}, "algorithm__train_batch_size": 40}
    result = small("tests.toys:Slow", tmp_path, **changes)
    row = read_metrics(tmp_path / "run" / "metrics.csv")[0]
    assert (result.iterations, result.steps) == (1, 40)
    assert float(row["time/sample"]) > 85
    assert row["policy/loss"] != ""


@pytest.mark.parametrize("stop", [{"stop__iterations": 4}, {"stop__iterations": None, "stop__steps": 320}])
def test_a_linear_schedule_falls_to_the_end(
    stop: dict[str, Any], tmp_path: Path, ray_with_four_cpus: None
) -> None:
    small("tests.toys:Guess", tmp_path, algorithm__lr=0.01, algorithm__lr_schedule="linear", **stop)
    rates = [float(row["learner/lr"]) for row in read_metrics(tmp_path / "run" / "metrics.csv")]
    assert len(rates) == 4
    assert all(later < earlier for earlier, later in pairwise(rates))
    assert rates[-1] < 0.004


def test_failures_while_evaluating_count(tmp_path: Path, ray_with_four_cpus: None) -> None:
    file = tmp_path / "fail"

    class Listener(Silence):
        def iterated(self, row: Any, progress: Any) -> None:
            file.touch()

    changes: dict[str, Any] = {"env__config": {"file": str(file)}, "evaluation__every": 1, "listener": Listener()}
    with pytest.raises(SimulatorError, match=r"failed 1 time, more than env.max_failures = 0"):
        small("tests.toys:FailsWhenEvaluated", tmp_path, env__max_failures=0, **changes)
