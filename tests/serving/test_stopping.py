"""The stop button: a run saves and ends, of whatever kind it is; nothing else is ever ended."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.errors import JobError, OwnershipError
from muster.jobs.stopping import stop_run
from muster.runs.folder import RunFolder
from muster.runs.lock import RunLock
from tests.commands import last_json, muster, start_muster, wait_until
from tests.runs.tiny import train_tiny
from tests.serving.browser import served

ENDLESS = ("CartPole-v1", "--name", "run", "--set", "resources.workers=0", "--set", "stop.steps=1e9")


def state_of(run: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((run / "status.json").read_text())
    return found


def has_rows(run: Path) -> bool:
    return (run / "metrics.csv").exists() and (run / "metrics.csv").read_text().count("\n") > 2


def test_a_run_of_this_machine_saves_and_ends_and_is_told_so_once(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    run = tmp_path / "runs/run"
    process = start_muster("train", *ENDLESS, "--quiet", cwd=tmp_path)
    try:
        wait_until(lambda: has_rows(run), "an iteration")
        with served(tmp_path / "runs") as browser:
            assert 'id="stop" type="button">' in browser.get("/runs/run").text
            answer = browser.post("/stop/run")
            assert (answer.code, answer.text) == (200, "asked to save and stop")
            assert browser.post("/stop/run").code == 409
            assert process.wait(30) == 130
            hidden = 'id="stop" type="button" hidden>'
            wait_until(
                lambda: hidden in browser.get("/runs/run").text, "the page to say that the run has ended", 10
            )
    finally:
        process.kill()
        process.communicate()
    iteration = state_of(run)["iteration"]
    assert (state_of(run)["state"], (run / "checkpoints/latest").resolve().name) == ("stopped", f"{iteration:08d}")


def test_a_submitted_run_is_cancelled_as_by_the_command(tmp_path: Path) -> None:
    done = muster("submit", *ENDLESS, "--on", "local", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = tmp_path / "runs/run"
    try:
        wait_until(lambda: has_rows(run), "an iteration", 90)
        assert stop_run(RunFolder(run), lambda _: None) == "saved and cancelled"
        assert (state_of(run)["state"], (run / "cancel").exists()) == ("cancelled", True)
        assert stop_run(RunFolder(run), lambda _: None) == "has ended already"
    finally:
        muster("cancel", "run", cwd=tmp_path)
    assert last_json(done)


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with any run."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        yield process
        process.kill()


def claim(run: Path, **changes: object) -> RunFolder:
    """Let a run's folder say that it is running."""
    status = state_of(run) | {"state": "running", "updated": time.time(), "host": socket.gethostname()} | changes
    (run / "status.json").write_text(json.dumps(status))
    return RunFolder(run)


def test_no_process_is_ended_that_does_not_hold_the_lock(
    tmp_path: Path, bystander: subprocess.Popen[bytes]
) -> None:
    run = train_tiny(tmp_path, "run")
    folder = claim(run, pid=bystander.pid)
    (run / "lock").write_text(json.dumps({"host": socket.gethostname(), "pid": bystander.pid}))
    with pytest.raises(JobError, match="does not hold the run's lock"):
        stop_run(folder, print)
    with RunLock(folder.lock), pytest.raises(JobError, match="does not hold the run's lock"):
        stop_run(folder, print)
    with pytest.raises(JobError, match="runs on elsewhere; stop it there"):
        stop_run(claim(run, host="elsewhere"), print)
    with pytest.raises(JobError, match="is saving and ending already"):
        stop_run(claim(run, state="saving"), print)
    with pytest.raises(JobError, match="is not running"):
        stop_run(claim(run, updated=1.0), print)
    (run / "status.json").chmod(0o666)
    with pytest.raises(OwnershipError):
        stop_run(claim(run), print)
    (tmp_path / "sweep.json").write_text("{}")
    with pytest.raises(JobError, match="is a trial; the sweep"):
        stop_run(folder, print)
    assert bystander.poll() is None
