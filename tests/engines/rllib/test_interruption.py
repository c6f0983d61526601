"""Signals and the wall time with RLlib, as a user meets them: saved, resumable, with the right exit codes."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from muster.runs.files import read_json_lines
from tests.commands import last_json, muster, start_muster, wait_until

SMALL = [
    *("--engine", "rllib", "--name", "run", "--quiet", "--json", "--set", "resources.envs_per_group=2"),
    *("--set", "algorithm.train_batch_size=80", "--set", "algorithm.minibatch_size=40"),
]


@pytest.mark.long
def test_a_signal_to_every_process_saves_and_the_run_goes_on(tmp_path: Path) -> None:
    command = ["train", "CartPole-v1", *SMALL, "--workers", "2", "--stop-steps", "1e9"]
    process = start_muster(*command, cwd=tmp_path, new_session=True)
    metrics = tmp_path / "runs" / "run" / "metrics.csv"
    wait_until(lambda: metrics.exists() and metrics.read_text().count("\n") > 3, "the third iteration", 120)
    os.killpg(process.pid, signal.SIGUSR2)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 75, stderr
    result = json.loads(stdout.splitlines()[-1])
    assert int(Path(result["checkpoint"]).name) == result["iterations"] > 0
    more = str(result["iterations"] + 1)
    done = muster(*command, "--workers", "0", "--resume", "--stop-iterations", more, cwd=tmp_path)
    assert (done.returncode, last_json(done)["iterations"]) == (0, int(more)), done.stderr
    assert "Traceback" not in stderr + done.stderr


@pytest.mark.long
@pytest.mark.parametrize("workers", ["0", "1"])
def test_an_iteration_that_takes_too_long_is_abandoned(workers: str, tmp_path: Path) -> None:
    flags = [*SMALL, "--workers", workers, "--set", "env.config.seconds=1.0", "--stop-steps", "1e9"]
    process = start_muster("train", "tests.toys:Slow", *flags, cwd=tmp_path)
    status = tmp_path / "runs" / "run" / "status.json"
    wait_until(lambda: status.exists() and '"running"' in status.read_text(), "training", 120)
    time.sleep(2)
    process.terminate()
    _, stderr = process.communicate(timeout=27)
    assert process.returncode == 143, stderr
    assert "Traceback" not in stderr
    events = [event["event"] for event in read_json_lines(tmp_path / "runs" / "run" / "events.jsonl")]
    assert "iteration abandoned" in events
