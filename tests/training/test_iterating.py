"""A run that is trained one iteration at a time, and left in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import muster
from muster.runs.metrics import read_metrics
from muster.training import TrainOptions
from tests.commands import environment, policy_bytes, timeless_metrics, wait_until

SMALL = {
    "resources.workers": 0,
    "resources.env_groups": 2,
    "resources.envs_per_group": 2,
    "algorithm.train_batch_size": 80,
    "algorithm.minibatch_size": 40,
    "model.hidden": [8],
    "stop.iterations": 5,
}


def small(folder: Path, name: str = "run", *, resume: bool = False) -> muster.Training:
    overrides = {**SMALL, "name": name}
    return muster.Training("tests.toys:Guess", overrides=overrides, options=TrainOptions(folder, resume=resume))


def status_of(run: Path) -> tuple[str, str, int, int]:
    status = json.loads((run / "status.json").read_text())
    assert int((run / "checkpoints" / "latest").resolve().name) == status["iteration"], "all is saved"
    assert len(read_metrics(run / "metrics.csv")) == status["iteration"]
    return status["state"], status["reason"], status["iteration"], status["exit_code"]


def test_the_rows_are_those_of_the_record_and_the_caller_disturbs_nothing(tmp_path: Path) -> None:
    rows = []
    target, options = "tests.toys:GlobalRandomness", TrainOptions(runs_dir=tmp_path)
    with muster.Training(target, overrides={**SMALL, "name": "stepped"}, options=options) as training:
        for row in training:
            np.random.seed(1)
            assert len(read_metrics(tmp_path / "stepped" / "metrics.csv")) == row["iteration"], "already recorded"
            assert training.result is None
            rows.append(row)
    straight = muster.train(target, overrides={**SMALL, "name": "straight"}, options=options)
    assert training.result is not None
    assert (training.result.state, training.result.return_mean) == ("finished", straight.return_mean)
    recorded = read_metrics(tmp_path / "stepped" / "metrics.csv")
    assert [str(row["return/mean"]) for row in rows] == [row["return/mean"] for row in recorded]
    assert timeless_metrics(tmp_path / "stepped") == timeless_metrics(tmp_path / "straight")
    assert policy_bytes(tmp_path / "stepped") == policy_bytes(tmp_path / "straight")


def test_a_loop_that_is_left_saves_and_the_rest_of_the_run_is_as_if_it_never_was(tmp_path: Path) -> None:
    for row in small(tmp_path):
        if row["iteration"] == 2:
            break
    assert status_of(tmp_path / "run") == ("stopped", "stopped by its caller", 2, 0)
    assert [row["iteration"] for row in small(tmp_path, resume=True)] == [3, 4, 5]
    for _ in small(tmp_path, "straight"):
        pass
    assert timeless_metrics(tmp_path / "run") == timeless_metrics(tmp_path / "straight")
    assert policy_bytes(tmp_path / "run") == policy_bytes(tmp_path / "straight")


def test_a_loop_may_continue_until_the_block_is_left(tmp_path: Path) -> None:
    with small(tmp_path) as training:
        for row in training:
            if row["iteration"] == 2:
                break
        assert next(training)["iteration"] == 3
    assert training.result is not None
    assert (training.result.state, training.result.iterations, training.result.exit_code) == ("stopped", 3, 0)
    assert list(training) == []
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_an_exception_of_the_caller_saves_too(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mine"), small(tmp_path) as training:
        for _ in training:
            raise ValueError("mine\nand more")
    assert status_of(tmp_path / "run") == ("stopped", "its caller raised ValueError: mine", 1, 1)
    with pytest.raises(ValueError, match="mine"):
        for _ in small(tmp_path, "alone"):
            raise ValueError("mine")
    assert status_of(tmp_path / "alone")[0] == "stopped"


def test_stop(tmp_path: Path) -> None:
    never_started = small(tmp_path)
    never_started.stop()
    assert (list(never_started), list(tmp_path.iterdir())) == ([], [])
    with small(tmp_path) as training:
        next(training)
        training.stop("enough", 75)
        training.stop("again")
        assert list(training) == []
    assert status_of(tmp_path / "run") == ("stopped", "enough", 1, 75)
    with small(tmp_path, "to-the-last") as training:
        for row in training:
            if row["iteration"] == 5:
                break
    assert status_of(tmp_path / "to-the-last") == ("finished", "5 iterations done", 5, 0)


def test_a_signal_in_the_loop_ends_the_run_before_the_next_iteration(tmp_path: Path) -> None:
    iterations = []
    with small(tmp_path) as training:
        for row in training:
            iterations.append(row["iteration"])
            if row["iteration"] == 2:
                os.kill(os.getpid(), signal.SIGTERM)
    assert iterations == [1, 2]
    assert training.result is not None
    assert training.result.exit_code == 143
    assert status_of(tmp_path / "run") == ("stopped", "interrupted by SIGTERM", 2, 143)


def start(script: str, folder: Path, **extra: str) -> subprocess.Popen[str]:
    head = f"import muster, time\noverrides = { ({**SMALL, 'name': 'run', 'checkpoint.every': 100})!r}\n"
    return subprocess.Popen(
        [sys.executable, "-c", head + script],
        cwd=folder,
        env=environment(**extra),
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_signal_saves_although_the_loop_s_body_hangs(tmp_path: Path) -> None:
    script = "for row in muster.Training('tests.toys:Guess', overrides=overrides):\n    time.sleep(600)\n"
    process = start(script, tmp_path, MUSTER_GRACE="2")
    metrics = tmp_path / "runs" / "run" / "metrics.csv"
    wait_until(lambda: metrics.exists() and len(read_metrics(metrics)) == 1, "the first iteration")
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=20)
    assert process.returncode == 143, stderr
    assert status_of(tmp_path / "runs" / "run") == ("stopped", "interrupted by SIGTERM", 1, 143)


def test_a_run_that_is_left_open_is_saved_when_python_exits_and_before_its_ray_ends(tmp_path: Path) -> None:
    script = (
        "overrides['resources.workers'] = 1\n"
        "training = muster.Training('tests.toys:Guess', overrides=overrides)\n"
        "next(training), next(training)\n"
        "training.itself = training\n"
    )
    process = start(script, tmp_path)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (0, "")
    assert status_of(tmp_path / "runs" / "run") == ("stopped", "stopped by its caller", 2, 0)


def test_the_package_can_be_called_like_the_class(tmp_path: Path) -> None:
    training = getattr(muster, "training")  # noqa: B009
    overrides = {"resources.workers": 0, "stop.iterations": 2}
    rows = list(training("CartPole-v1", overrides=overrides, options=TrainOptions(runs_dir=tmp_path)))
    assert [row["iteration"] for row in rows] == [1, 2]
