"""The same seed gives the same run, to the last bit, on any number of workers and across a kill."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from muster import train
from muster.training import TrainOptions
from tests.commands import RATIO, muster, policy_bytes, start_muster, timeless_metrics, wait_until

EXPERIMENTS = [("CartPole-v1", "PPO"), ("CartPole-v1", "TRPO"), (str(RATIO), "PPO"), (str(RATIO), "TRPO")]
A2C = ("CartPole-v1", "A2C")
LONGER = [pytest.param(*one, marks=pytest.mark.long) for one in EXPERIMENTS[1:3]]
ITERATIONS = 5


@pytest.mark.parametrize(("target", "algorithm"), [EXPERIMENTS[0], EXPERIMENTS[3], A2C, *LONGER])
def test_any_number_of_workers(target: str, algorithm: str, tmp_path: Path, ray_with_four_cpus: None) -> None:
    found = set()
    for workers in (0, 1, 2, 4):
        overrides = {
            "name": f"w{workers}",
            "algorithm.name": algorithm,
            "resources.workers": workers,
            "stop.iterations": ITERATIONS,
            "stop.steps": 10**9,
        }
        result = train(target, overrides=overrides, options=TrainOptions(runs_dir=tmp_path))
        assert result.iterations == ITERATIONS
        run = tmp_path / f"w{workers}"
        found.add((timeless_metrics(run), policy_bytes(run)))
    assert len(found) == 1


@pytest.mark.parametrize(
    ("target", "algorithm"),
    [EXPERIMENTS[0], *(pytest.param(*pair, marks=pytest.mark.long) for pair in [*EXPERIMENTS[1:], A2C])],
)
def test_killed_and_resumed_on_another_number_of_workers(target: str, algorithm: str, tmp_path: Path) -> None:
    flags = ["--algorithm", algorithm, "--stop-iterations", "20", "--set", "checkpoint.every=5", "--quiet"]
    assert muster("train", target, *flags, "--workers", "0", "--name", "straight", cwd=tmp_path).returncode == 0
    process = start_muster("train", target, *flags, "--workers", "0", "--name", "killed", cwd=tmp_path)
    killed, straight = tmp_path / "runs" / "killed", tmp_path / "runs" / "straight"
    wait_until((killed / "checkpoints" / "00000010").exists, "the tenth iteration's checkpoint")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = muster("train", target, *flags, "--workers", "2", "--name", "killed", "--resume", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert timeless_metrics(killed) == timeless_metrics(straight)
    assert policy_bytes(killed) == policy_bytes(straight)


@pytest.mark.parametrize("algorithm", ["PPO", "A2C"])
def test_a_run_in_two_parts_is_the_run_in_one(algorithm: str, tmp_path: Path) -> None:
    options = TrainOptions(runs_dir=tmp_path)
    overrides = {"algorithm.name": algorithm, "resources.workers": 0, "stop.iterations": 6}
    # A rate that falls to zero depends on where the end is, and here it moves.
    overrides["algorithm.lr_schedule"] = "constant"
    train("Pendulum-v1", overrides={**overrides, "name": "one"}, options=options)
    train("Pendulum-v1", overrides={**overrides, "name": "two", "stop.iterations": 3}, options=options)
    resumed = TrainOptions(runs_dir=tmp_path, resume=True)
    train("Pendulum-v1", overrides={**overrides, "name": "two"}, options=resumed)
    assert timeless_metrics(tmp_path / "one") == timeless_metrics(tmp_path / "two")
    assert policy_bytes(tmp_path / "one") == policy_bytes(tmp_path / "two")


@pytest.mark.parametrize("algorithm", ["PPO", pytest.param("TRPO", marks=pytest.mark.long)])
def test_state_dependent_exploration_on_any_number_of_workers(
    algorithm: str, tmp_path: Path, ray_with_four_cpus: None
) -> None:
    found = set()
    for workers in (0, 2):
        overrides = {
            "name": f"w{workers}",
            "algorithm.name": algorithm,
            "algorithm.use_sde": True,
            "algorithm.sde_sample_freq": 4,
            "resources.workers": workers,
            "stop.iterations": 3,
        }
        train("Pendulum-v1", overrides=overrides, options=TrainOptions(runs_dir=tmp_path))
        found.add((timeless_metrics(tmp_path / f"w{workers}"), policy_bytes(tmp_path / f"w{workers}")))
    assert len(found) == 1


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    options = TrainOptions(runs_dir=tmp_path)
    for seed in (0, 1):
        overrides = {"resources.workers": 0, "stop.iterations": 2, "seed": seed, "name": f"s{seed}"}
        train("CartPole-v1", overrides=overrides, options=options)
    assert timeless_metrics(tmp_path / "s0") != timeless_metrics(tmp_path / "s1")
