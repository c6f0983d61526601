"""Signals at every moment of a run: saved or never begun, the right exit code, in time, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from muster.runs.metrics import read_metrics
from tests.commands import MUSTER, environment, last_json, muster, start_muster, wait_until

ENDLESS = ["train", "CartPole-v1", "--name", "run", "--quiet", "--json", "--stop-steps", "1e9"]
LONG = pytest.mark.long


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A short place for temporary folders; looks at the end that nothing is left there, and no process."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="s") as folder:
        yield Path(folder)
        deadline = time.monotonic() + 2
        while left := [*_processes_with(folder), *Path(folder).iterdir()]:
            if time.monotonic() > deadline:
                for process in _processes_with(folder):
                    process.kill()
                pytest.fail(f"left behind: {left}")
            time.sleep(0.1)


def _processes_with(folder: str) -> list[psutil.Process]:
    """Return the processes that were told to keep temporary files in a folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("TMPDIR") == folder and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def _start(*arguments: str, cwd: Path, scratch: Path) -> subprocess.Popen[str]:
    return start_muster(*ENDLESS, *arguments, cwd=cwd, new_session=True, TMPDIR=str(scratch))


def _wait_for_rows(folder: Path, count: int = 3) -> None:
    metrics = folder / "runs" / "run" / "metrics.csv"
    wait_until(lambda: metrics.exists() and metrics.read_text().count("\n") > count, f"iteration {count}")


def _require_saved(folder: Path, stdout: str, code: int, *flags: str) -> None:
    """Look that all that was trained is saved, and that the run resumes there."""
    result = json.loads(stdout.splitlines()[-1])
    rows = read_metrics(folder / "runs" / "run" / "metrics.csv")
    assert result["exit_code"] == code
    assert int(Path(result["checkpoint"]).name) == result["iterations"] == len(rows) > 0
    more = result["iterations"] + 1
    done = muster(*ENDLESS, *flags, "--workers", "0", "--resume", "--stop-iterations", str(more), cwd=folder)
    assert (done.returncode, last_json(done)["iterations"]) == (0, more), done.stderr
    rows = read_metrics(folder / "runs" / "run" / "metrics.csv")
    assert [int(row["iteration"]) for row in rows] == list(range(1, more + 1))


@pytest.mark.parametrize(
    ("number", "code"),
    [
        pytest.param(signal.SIGHUP, 143, marks=LONG),
        pytest.param(signal.SIGTERM, 143, marks=LONG),
        (signal.SIGINT, 130),
        pytest.param(signal.SIGUSR2, 75, marks=LONG),
    ],
)
def test_a_signal_to_the_group_saves_with_workers(
    number: signal.Signals, code: int, tmp_path: Path, scratch: Path
) -> None:
    process = _start("--workers", "2", cwd=tmp_path, scratch=scratch)
    _wait_for_rows(tmp_path)
    sent = time.monotonic()
    os.killpg(process.pid, number)
    stdout, stderr = process.communicate(timeout=60)
    assert time.monotonic() - sent < 20
    assert (process.returncode, stderr) == (code, "")
    _require_saved(tmp_path, stdout, code)


def test_a_signal_to_every_process_of_the_job_saves(tmp_path: Path, scratch: Path) -> None:
    process = _start("--workers", "2", cwd=tmp_path, scratch=scratch)
    _wait_for_rows(tmp_path)
    for each in _processes_with(str(scratch)):
        each.send_signal(signal.SIGTERM)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 143, stderr
    _require_saved(tmp_path, stdout, 143)


def test_the_same_signal_twice_at_once_counts_once(tmp_path: Path, scratch: Path) -> None:
    process = _start("--workers", "0", cwd=tmp_path, scratch=scratch)
    _wait_for_rows(tmp_path)
    process.send_signal(signal.SIGTERM)
    os.killpg(process.pid, signal.SIGTERM)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 143, stderr
    _require_saved(tmp_path, stdout, 143)


@pytest.mark.long
def test_a_second_signal_leaves_nothing_of_ray(tmp_path: Path, scratch: Path) -> None:
    slow = ["train", "tests.toys:SlowOnceTold", *ENDLESS[2:], "--workers", "2"]
    told = ["--set", f"env.config.file={tmp_path / 'slow'}"]
    process = start_muster(*slow, *told, cwd=tmp_path, new_session=True, TMPDIR=str(scratch))
    _wait_for_rows(tmp_path)
    (tmp_path / "slow").touch()
    wait_until((tmp_path / "slow-step").exists, "a slow step")
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    sent = time.monotonic()
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=10)
    assert (process.returncode, time.monotonic() - sent < 3) == (143, True)


@pytest.mark.parametrize("delay", [0.1, pytest.param(0.3, marks=LONG), 0.6])
def test_a_signal_before_training_is_no_failure(delay: float, tmp_path: Path, scratch: Path) -> None:
    process = _start("--workers", "0", cwd=tmp_path, scratch=scratch)
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in stderr


@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=LONG)])
def test_building_simulators_is_interrupted(workers: str, tmp_path: Path, scratch: Path) -> None:
    stuck = ["train", "tests.toys:Stuck", *ENDLESS[2:], "--workers", workers, "--set", "env.config.where=build"]
    process = start_muster(*stuck, cwd=tmp_path, new_session=True, TMPDIR=str(scratch))
    time.sleep(3)
    sent = time.monotonic()
    os.killpg(process.pid, signal.SIGTERM)
    _, stderr = process.communicate(timeout=30)
    assert (process.returncode, time.monotonic() - sent < 5) == (143, True)
    assert stderr == "error: interrupted by SIGTERM before training began\n"


@pytest.mark.parametrize(("where", "workers"), [("step", 0), ("close", 0), pytest.param("step", 2, marks=LONG)])
def test_a_simulator_that_hangs_does_not_hold_up_the_end(
    where: str, workers: int, tmp_path: Path, scratch: Path
) -> None:
    stuck = ["train", "tests.toys:Stuck", *ENDLESS[2:], "--workers", str(workers)]
    settings = ["--set", f"env.config.where={where}", "--set", "checkpoint.simulators=false"]
    process = start_muster(
        *stuck, *settings, cwd=tmp_path, new_session=True, TMPDIR=str(scratch), MUSTER_GRACE="4"
    )
    _wait_for_rows(tmp_path)
    time.sleep(1)
    sent = time.monotonic()
    os.killpg(process.pid, signal.SIGTERM)
    _, stderr = process.communicate(timeout=30)
    assert (process.returncode, time.monotonic() - sent < 8) == (143, True), stderr
    status = json.loads((tmp_path / "runs" / "run" / "status.json").read_text())
    latest = (tmp_path / "runs" / "run" / "checkpoints" / "latest").resolve()
    assert (status["state"], status["exit_code"]) == ("stopped", 143)
    assert int(latest.name) == status["iteration"] == len(read_metrics(tmp_path / "runs" / "run" / "metrics.csv"))


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=LONG)])
def test_a_long_iteration_is_abandoned_in_a_short_grace_period(
    workers: int, tmp_path: Path, scratch: Path
) -> None:
    slow = ["train", "tests.toys:SlowOnceTold", *ENDLESS[2:], "--workers", str(workers)]
    told = ["--set", f"env.config.file={tmp_path / 'slow'}"]
    flux = {"FLUX_JOB_ID": "f1", "FLUX_JOB_NNODES": "1"}
    process = start_muster(*slow, *told, cwd=tmp_path, new_session=True, TMPDIR=str(scratch), **flux)
    _wait_for_rows(tmp_path)
    (tmp_path / "slow").touch()
    wait_until((tmp_path / "slow-step").exists, "a slow step")
    sent = time.monotonic()
    os.killpg(process.pid, signal.SIGTERM)
    _, stderr = process.communicate(timeout=30)
    assert (process.returncode, time.monotonic() - sent < 5) == (143, True), stderr
    status = json.loads((tmp_path / "runs" / "run" / "status.json").read_text())
    assert status["state"] == "stopped"
    assert int((tmp_path / "runs" / "run" / "checkpoints" / "latest").resolve().name) == status["iteration"] > 0


def test_the_wall_time_is_kept_when_a_simulator_hangs(tmp_path: Path, scratch: Path) -> None:
    stuck = ["train", "tests.toys:Stuck", *ENDLESS[2:], "--workers", "0", "--set", "env.config.where=step"]
    end = time.time() + 12
    done = muster(*stuck, cwd=tmp_path, TMPDIR=str(scratch), MUSTER_END_TIME=str(end))
    assert (done.returncode, time.time() < end) == (75, True), done.stderr
    latest = (tmp_path / "runs" / "run" / "checkpoints" / "latest").resolve()
    assert int(latest.name) == len(read_metrics(tmp_path / "runs" / "run" / "metrics.csv")) > 0


def test_a_kill_leaves_nothing_of_ray(tmp_path: Path, scratch: Path) -> None:
    process = _start("--workers", "2", cwd=tmp_path, scratch=scratch)
    _wait_for_rows(tmp_path)
    process.kill()
    process.communicate()


@pytest.mark.parametrize("name", ["raylet", pytest.param("gcs_server", marks=LONG)])
def test_a_lost_ray_is_noticed_and_the_run_is_saved(name: str, tmp_path: Path, scratch: Path) -> None:
    # While an object is on its way to or from Ray's store, a lost store ends the run's process: seldom, if batches
    # are large.
    large = ["--set", "algorithm.train_batch_size=32768"]
    process = _start("--workers", "2", *large, cwd=tmp_path, scratch=scratch)
    _wait_for_rows(tmp_path)
    [lost] = [each for each in _processes_with(str(scratch)) if each.name() == name]
    lost.kill()
    stdout, stderr = process.communicate(timeout=15)
    assert process.returncode == 1
    assert "error: Ray ended while it was in use" in stderr, stdout
    _require_saved(tmp_path, stdout, 1, *large)


def test_a_hangup_is_ignored_under_nohup(tmp_path: Path, scratch: Path) -> None:
    command = ["nohup", str(MUSTER), *ENDLESS, "--workers", "0", "--stop-iterations", "20"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment(TMPDIR=str(scratch)), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    _wait_for_rows(tmp_path)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.parametrize("redirection", ["| head -1", "> /dev/full", "2> /dev/full > /dev/full", ">&- 2>&- <&-"])
def test_output_that_cannot_be_written_does_not_end_training(redirection: str, tmp_path: Path) -> None:
    train = f"{MUSTER} train CartPole-v1 --workers 0 --name run --verbose --stop-iterations 8"
    script = ["bash", "-c", f"set -o pipefail; {train} {redirection}"]
    done = subprocess.run(script, cwd=tmp_path, env=environment(), check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(read_metrics(tmp_path / "runs" / "run" / "metrics.csv")) == 8
