"""Signals, the wall time and kill -9: saved, resumable, with the right exit codes."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path

import pytest

from muster.runs.checkpoints import Checkpoints, verify
from muster.training.interruption import Interrupted, Interruption, InterruptionWatch
from tests.commands import last_json, muster, policy_bytes, start_muster, timeless_metrics, wait_until

ENDLESS = ["train", "CartPole-v1", "--workers", "0", "--name", "run", "--quiet", "--stop-steps", "1e9"]


def wait_for_iterations(folder: Path) -> None:
    metrics = folder / "runs" / "run" / "metrics.csv"
    wait_until(lambda: metrics.exists() and metrics.read_text().count("\n") > 3, "the third iteration")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGUSR2, 75)])
def test_a_signal_saves_and_ends_with_its_code(number: signal.Signals, code: int, tmp_path: Path) -> None:
    process = start_muster(*ENDLESS, "--json", cwd=tmp_path)
    wait_for_iterations(tmp_path)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == code, stderr
    result = json.loads(stdout.splitlines()[-1])
    assert (result["state"], result["exit_code"]) == ("stopped", code)
    assert int(Path(result["checkpoint"]).name) == result["iterations"] > 0
    status = json.loads((tmp_path / "runs/run/status.json").read_text())
    assert (status["state"], status["exit_code"]) == ("stopped", code)
    more = str(result["iterations"] + 2)
    done = muster(*ENDLESS, "--resume", "--json", "--stop-iterations", more, cwd=tmp_path)
    assert (done.returncode, last_json(done)["iterations"]) == (0, int(more))


def test_the_wall_time_saves_before_it_ends(tmp_path: Path) -> None:
    end = time.time() + 12
    done = muster(*ENDLESS, "--json", cwd=tmp_path, MUSTER_END_TIME=str(end))
    assert time.time() < end
    assert done.returncode == 75
    result = last_json(done)
    assert result["reason"] == "the wall time is about to end"
    assert result["iterations"] > 0
    assert muster(*ENDLESS, cwd=tmp_path, MUSTER_END_TIME="tomorrow").returncode == 2


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    slow = ["train", "tests.toys:SlowOnceTold", *ENDLESS[2:], "--set", f"env.config.file={tmp_path / 'slow'}"]
    process = start_muster(*slow, cwd=tmp_path)
    wait_for_iterations(tmp_path)
    (tmp_path / "slow").touch()
    wait_until((tmp_path / "slow-step").exists, "a slow step")
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=5)
    assert process.returncode == 143


def test_an_iteration_that_takes_too_long_is_abandoned(tmp_path: Path) -> None:
    end = time.time() + 12
    slow = ["train", "tests.toys:Slow", *ENDLESS[2:], "--json"]
    done = muster(*slow, cwd=tmp_path, MUSTER_END_TIME=str(end))
    assert time.time() < end
    assert (done.returncode, last_json(done)["state"]) == (75, "stopped")


def test_two_writers_are_refused(tmp_path: Path) -> None:
    process = start_muster(*ENDLESS, cwd=tmp_path)
    wait_for_iterations(tmp_path)
    second = muster(*ENDLESS, "--resume", cwd=tmp_path)
    process.kill()
    process.communicate()
    assert second.returncode == 1
    assert f"another process writes to this run: pid {process.pid} on" in second.stderr


def kill_again_and_again(folder: Path, kills: int, seed: int) -> None:
    """Kill a run at random instants, looking each time that it can go on; then let it end."""
    instants = random.Random(seed)
    command = [*ENDLESS[:-2], "--set", "checkpoint.every=1", "--stop-iterations", str(40 * kills)]
    checkpoints = Checkpoints(folder / "runs" / "run" / "checkpoints")
    for _ in range(kills):
        process = start_muster(*command, "--resume", cwd=folder)
        time.sleep(instants.uniform(0.3, 2.5))
        ended = process.poll() is not None
        process.kill()
        _, stderr = process.communicate()
        assert not ended, stderr
        if (latest := checkpoints.latest()) is not None:
            verify(latest)
            verify(checkpoints.find("latest"))
    saved = int(latest.name) if latest else 0
    end = str(saved + 5)
    final = [*ENDLESS[:-2], "--set", "checkpoint.every=1", "--stop-iterations", end]
    assert muster(*final, "--resume", cwd=folder).returncode == 0
    straight = [*final[:4], "--name", "straight", *final[6:]]
    assert muster(*straight, cwd=folder).returncode == 0
    runs = folder / "runs"
    assert timeless_metrics(runs / "run") == timeless_metrics(runs / "straight")
    assert policy_bytes(runs / "run") == policy_bytes(runs / "straight")


@pytest.mark.long
def test_killed_at_random_instants(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, kills=8, seed=0)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_killed_200_times_at_random_instants(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, kills=200, seed=1)


@pytest.mark.long
def test_the_wall_time_ends_an_evaluation_too(tmp_path: Path) -> None:
    end = time.time() + 15
    settings = ["--set", "evaluation.every=1", "--set", "evaluation.episodes=100000"]
    done = muster(*ENDLESS, *settings, "--json", cwd=tmp_path, MUSTER_END_TIME=str(end))
    assert time.time() < end
    assert (done.returncode, last_json(done)["iterations"]) == (75, 1)


def test_what_a_library_makes_of_a_signal_is_an_interruption_too() -> None:
    with InterruptionWatch() as watch, pytest.raises(Interrupted, match="by SIGTERM"), watch.nothing_to_save():
        watch.interrupt(Interruption("interrupted by SIGTERM", 143))
        raise KeyboardInterrupt
