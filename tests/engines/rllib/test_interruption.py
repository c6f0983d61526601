"""Signals and the wall time with RLlib, as a user meets them: saved, resumable, with the right exit codes."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from muster.runs.files import read_json_lines
from muster.training import interruption
from muster.training.listening import RunStart, Silence
from tests.commands import last_json, muster, start_muster, wait_until
from tests.engines.rllib.runs import small

SMALL = [
    *("--engine", "rllib", "--name", "run", "--quiet", "--json", "--set", "resources.envs_per_group=2"),
    *("--set", "algorithm.train_batch_size=80", "--set", "algorithm.minibatch_size=40"),
]


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
@pytest.mark.parametrize("workers", [0, 1])
def test_an_iteration_that_takes_too_long_is_abandoned(
    workers: int, tmp_path: Path, ray_with_four_cpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupter(Silence):
        def started(self, start: RunStart) -> None:
            threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGTERM)).start()
            self.time = time.monotonic()

    monkeypatch.setattr(interruption, "GRACE_SECONDS", 1.0)
    listener = Interrupter()
    changes: dict[str, Any] = {
        "resources__workers": workers,
        "env__config": {"seconds": 1.0},
        "listener": listener,
    }
    result = small("tests.toys:Slow", tmp_path, **changes)
    assert time.monotonic() - listener.time < 25
    assert (result.exit_code, result.iterations) == (143, 0)
    events = [event["event"] for event in read_json_lines(tmp_path / "run" / "events.jsonl")]
    assert "iteration abandoned" in events
