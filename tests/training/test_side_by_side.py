"""Seeds side by side: the same as one after another, and ended together."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import psutil
import pytest

from muster.training.seeds import average_name, summary_of
from tests.commands import last_json, muster, policy_bytes, start_muster, timeless_metrics, wait_until

QUICK = ["--set", "algorithm.train_batch_size=256", "--quiet"]
needs_two_cpus = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs"
)


@needs_two_cpus
def test_seeds_side_by_side_are_the_runs_that_they_are_alone(tmp_path: Path) -> None:
    command = ["train", "CartPole-v1", *QUICK, "--stop-iterations", "12", "--name", "many"]
    result = last_json(muster(*command, "--seeds", "3", "--seed", "4", "--json", cwd=tmp_path))
    assert [Path(run["run"]).name for run in result["runs"]] == ["seed-4", "seed-5", "seed-6"]
    assert result["exit_code"] == 0
    means = [evaluation["return_mean"] for evaluation in result["evaluations"]]
    assert result["evaluation_mean"] == pytest.approx(sum(means) / 3)
    assert json.loads((tmp_path / "runs/many/seeds.json").read_text())["runs"] == result["runs"]
    alone = ["train", "CartPole-v1", *QUICK, "--stop-iterations", "12", "--seed", "5", "--name", "alone"]
    assert muster(*alone, "--workers", "0", cwd=tmp_path).returncode == 0
    side, alone_folder = tmp_path / "runs/many/seed-5", tmp_path / "runs/alone"
    assert timeless_metrics(side) == timeless_metrics(alone_folder)
    assert policy_bytes(side) == policy_bytes(alone_folder)
    text = muster(*command, "--seeds", "3", "--seed", "4", "--resume", cwd=tmp_path).stdout
    assert "3 seeds, the best policy of each in the same 10 episodes: mean return" in text


@needs_two_cpus
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGUSR2, 75), (signal.SIGKILL, -9)])
def test_all_seeds_save_and_end_with_their_parent(number: signal.Signals, code: int, tmp_path: Path) -> None:
    command = ["train", "CartPole-v1", *QUICK, "--stop-steps", "1e9", "--seeds", "2", "--name", "many"]
    process = start_muster(*command, cwd=tmp_path, new_session=True)
    statuses = [tmp_path / "runs/many" / name / "metrics.csv" for name in ("seed-0", "seed-1")]
    wait_until(lambda: all(file.exists() and file.read_text().count("\n") > 3 for file in statuses), "iterations")
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 2
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == code
    wait_until(lambda: not any(child.is_running() and child.status() != "zombie" for child in children), "ends")
    for name in ("seed-0", "seed-1"):
        status = json.loads((tmp_path / "runs/many" / name / "status.json").read_text())
        assert status["state"] == "stopped" and status["exit_code"] == (143 if code < 0 else code)


@needs_two_cpus
def test_the_first_failure_ends_the_others_saved(tmp_path: Path) -> None:
    command = ["train", "tests.toys:Failing", *QUICK, "--seeds", "2", "--name", "many", "--json"]
    done = muster(*command, "--set", "env.max_failures=3", "--stop-steps", "1e9", cwd=tmp_path)
    assert done.returncode == 3
    assert "seed-" in done.stderr and "the simulator failed" in done.stderr
    assert last_json(done)["exit_code"] == 3


def test_bad_input_is_said_once_with_its_place(tmp_path: Path) -> None:
    done = muster("train", "CartPole-v2", "--seeds", "2", cwd=tmp_path)
    assert done.returncode == 2 and "CartPole-v2" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_few_values_have_a_mean_and_more_an_interquartile_one() -> None:
    assert summary_of([]) == (None, None)
    assert summary_of([3.0]) == (3.0, None)
    mean, interval = summary_of([1.0, 2.0, 3.0])
    assert mean == 2.0 and interval is not None and average_name(3) == "mean"
    middle, interval = summary_of([0.0, 1.0, 2.0, 3.0, 1000.0, 4.0, 5.0, 6.0])
    assert middle == pytest.approx(3.5) and average_name(8) == "interquartile mean"
    assert interval is not None and interval[0] < 3.5 < interval[1]


def test_the_runs_of_seeds_and_a_run_do_not_share_a_name(tmp_path: Path) -> None:
    train = ["train", "CartPole-v1", *QUICK, "--stop-iterations", "1", "--workers", "0"]
    one, several = [*train, "--name", "one"], [*train, "--seeds", "2", "--name", "several"]
    for command in (one, several):
        assert muster(*command, cwd=tmp_path).returncode == 0
    inside = muster(*one, "--seeds", "2", cwd=tmp_path)
    assert (inside.returncode, "one: is a run" in inside.stderr) == (2, True)
    beside = muster(*train, "--name", "several", cwd=tmp_path)
    assert (beside.returncode, "several: holds the runs of several seeds" in beside.stderr) == (2, True)
