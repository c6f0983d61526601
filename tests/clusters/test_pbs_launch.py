"""A launch in a PBS job's own shell: pbs_tmrsh starts the other ranks, and the job's signals are outlived."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.clusters.fake_pbs import make_job, running_job
from tests.commands import MUSTER, start_muster, wait_until

HERE = socket.gethostname()
SAVES = (
    "trap 'sleep 1; touch saved; exit 9' TERM; echo $MUSTER_END_TIME $MUSTER_GRACE >told; mv told running; "
    "sleep 300 & wait"
)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Two chunks on this host and one on another, which is this one too; nothing of a launch may be left."""
    yield make_job(tmp_path, [HERE, HERE, "elsewhere"], running_job({HERE: 1, "elsewhere": 1}, "01:00:00"))
    wait_until(lambda: not ranks_in(tmp_path), f"all ranks to end: {ranks_in(tmp_path)}", seconds=15)
    assert not list(tmp_path.glob("runs/launches/*/meeting"))


def ranks_in(folder: Path) -> list[list[str]]:
    """Return the command lines of the ranks of launches in a folder."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.cwd() == str(folder) and "launch" in process.cmdline():
                found.append(process.cmdline())
    return found


@pytest.mark.long
def test_a_signal_to_the_whole_job_lets_the_command_save(job: dict[str, str], tmp_path: Path) -> None:
    process = start_muster("launch", "--", "sh", "-c", SAVES, cwd=tmp_path, new_session=True, **job)
    wait_until((tmp_path / "running").exists, "the command")
    end, grace = map(float, (tmp_path / "running").read_text().split())
    assert end == pytest.approx(time.time() + 3600, abs=60)
    assert grace == 7, "of the ten seconds that PBS gives"
    [task] = (tmp_path / "tasks").read_text().splitlines()
    host, _, arguments = task.partition(" ")
    assert (host, len(arguments.split())) == ("elsewhere", 3), "python STUB ORDER: no secret"
    assert not Path(arguments.split()[-1]).exists()
    os.killpg(process.pid, signal.SIGTERM)
    _, stderr = process.communicate(timeout=20)
    assert process.returncode == 9, stderr
    assert (tmp_path / "saved").exists()
    assert ranks_in(tmp_path) == [], "the one who started them ends last"


@pytest.mark.long
def test_a_job_that_is_killed_leaves_nothing(job: dict[str, str], tmp_path: Path) -> None:
    process = start_muster("launch", "--", "sh", "-c", SAVES, cwd=tmp_path, new_session=True, **job)
    wait_until((tmp_path / "running").exists, "the command")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    wait_until((tmp_path / "saved").exists, "the command to save", seconds=5)


def test_a_first_rank_that_fails_ends_the_others(job: dict[str, str], tmp_path: Path) -> None:
    process = start_muster("launch", "--interface", "nosuch0", "--", "true", cwd=tmp_path, new_session=True, **job)
    started = time.monotonic()
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 4
    assert "no such interface or subnet" in stderr
    assert time.monotonic() - started < 30


@pytest.mark.long
def test_a_job_on_one_host_needs_no_other_ranks(tmp_path: Path) -> None:
    job = make_job(tmp_path, [HERE, HERE], running_job({HERE: 1}))
    process = start_muster("launch", "--", "sh", "-c", SAVES, cwd=tmp_path, new_session=True, **job)
    wait_until((tmp_path / "running").exists, "the command")
    os.killpg(process.pid, signal.SIGTERM)
    _, stderr = process.communicate(timeout=20)
    assert process.returncode == 9, stderr
    assert not (tmp_path / "tasks").exists()


@pytest.mark.long
def test_training_ends_before_the_wall_time(tmp_path: Path) -> None:
    job = make_job(tmp_path, [HERE], running_job({HERE: 1}, "00:20"))
    end = time.time() + 20
    train = [str(MUSTER), "train", "CartPole-v1", "--workers", "0", "--name", "run", "--stop-steps", "1e9"]
    process = start_muster("launch", "--", *train, cwd=tmp_path, new_session=True, **job)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, time.time() < end) == (75, True), stderr
    assert (tmp_path / "runs" / "run" / "checkpoints" / "latest").exists()
