"""One job of a chain, from inside: run as a process, with Slurm's commands replaced."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from muster.jobs.folder import JobFolder, Order
from tests.commands import wait_until
from tests.jobs.conftest import Program

LOG = 'echo "$(basename "$0") $*" >> "$(dirname "$0")/log"'
ORDER = Order(kind="command", cluster="c", scheduler="slurm", chain="dependency", max_jobs=3)

Make = Callable[..., JobFolder]


@pytest.fixture
def make(tmp_path: Path, program: Program) -> Make:
    """Makes a run that was submitted as job 1, with a shell command."""
    program("sbatch", f"{LOG}; echo 2")
    program("scancel", LOG)
    program("scontrol", LOG)

    def made(command: str, **changes: Any) -> JobFolder:
        job = JobFolder(tmp_path / "run")
        order = replace(ORDER, command=["/bin/sh", "-c", command], **changes)
        job.create(order, {"job.sh": ""})
        job.add("submitted", job_id="1", anew=True)
        return job

    return made


def start(job: JobFolder, own: str = "1", **variables: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "SLURM_JOB_ID": own, **variables}
    command = [sys.executable, "-m", "muster", "link", str(job.path)]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def link(job: JobFolder, own: str = "1", **variables: str) -> tuple[int, str]:
    process = start(job, own, **variables)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


def said(tmp_path: Path) -> list[str]:
    log = tmp_path / "bin" / "log"
    return log.read_text().splitlines() if log.exists() else []


def events(job: JobFolder) -> list[tuple[str, str]]:
    return [(line["event"], line["job_id"]) for line in map(json.loads, job.record.read_text().splitlines())]


def test_the_next_job_is_submitted_first_and_taken_back_when_all_is_done(make: Make, tmp_path: Path) -> None:
    job = make("exit 0")
    assert link(job)[0] == 0
    assert said(tmp_path) == ["sbatch --parsable --dependency=afterany:1 job.sh", "scancel 2"]
    assert events(job) == [("submitted", "1"), ("started", "1"), ("submitted", "2"), ("ended", "1")]


def test_a_saved_link_leaves_the_next_one_in_the_queue_until_the_last(make: Make, tmp_path: Path) -> None:
    job = make("exit 75")
    assert link(job)[0] == 75
    assert link(job, own="2")[0] == 75
    assert len(said(tmp_path)) == 2
    job.add("submitted", job_id="3")
    assert link(job, own="3")[0] == 75
    assert len(said(tmp_path)) == 2
    code, errors = link(job, own="4")
    assert (code, "3 jobs have run, as many as --max-jobs allows" in errors) == (0, True)


def test_a_link_after_the_last_one_ends_at_once(make: Make, tmp_path: Path) -> None:
    job = make(f"touch {tmp_path}/ran; exit 1")
    assert link(job)[0] == 1
    before = len(events(job))
    code, errors = link(job, own="2")
    assert (code, "link 1 ended with code 1: nothing is left to do" in errors) == (0, True)
    assert len(events(job)) == before


def test_where_jobs_must_not_submit_jobs_the_link_runs_all_the_same(make: Make, program: Program) -> None:
    program("sbatch", "echo 'not allowed on compute nodes' >&2; exit 1")
    code, errors = link(make("exit 75"))
    assert code == 75
    assert "not allowed on compute nodes" in errors
    assert 'chain = "ahead"' in errors


@pytest.mark.parametrize(
    ("scheduler", "variable", "expected"),
    [("slurm", "SLURM_JOB_ID", 75), ("sge", "JOB_ID", 99), ("lsf", "LSB_JOBID", 75)],
)
def test_a_requeued_link_asks_the_scheduler_in_its_own_way(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheduler: str, variable: str, expected: int
) -> None:
    monkeypatch.setenv(variable, "1")
    job = make("exit 75", chain="requeue", scheduler=scheduler)
    process = start(job)
    if scheduler == "slurm":
        wait_until(lambda: said(tmp_path) == ["scontrol requeue 1"], "the requeue")
        process.send_signal(signal.SIGTERM)
        expected = -signal.SIGTERM
    process.communicate(timeout=30)
    assert process.returncode == expected


def test_a_cancelled_run_is_ended_and_never_started_again(make: Make, tmp_path: Path) -> None:
    job = make("trap 'exit 143' TERM; while :; do sleep 0.05; done")
    process = start(job)
    wait_until(lambda: len(events(job)) == 3, "the start")
    job.cancel.touch()
    process.communicate(timeout=30)
    assert process.returncode == 143
    assert said(tmp_path)[-1] == "scancel 2"
    before = events(job)
    code, errors = link(job, own="2")
    assert (code, "the run was cancelled" in errors) == (0, True)
    assert events(job) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR2, signal.SIGHUP])
def test_signals_are_passed_on_and_the_end_is_recorded(make: Make, tmp_path: Path, number: signal.Signals) -> None:
    ready = tmp_path / "ready"
    job = make(f"trap 'exit 7' {number.value}; touch {ready}; while :; do sleep 0.05; done")
    process = start(job)
    wait_until(ready.exists, "the command")
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == 7
    assert events(job)[-1] == ("ended", "1")


def test_a_command_of_another_user_is_not_run(make: Make, tmp_path: Path) -> None:
    job = make(f"touch {tmp_path}/ran")
    job.order_file.chmod(0o666)
    code, errors = link(job)
    assert (code, "another user can change" in errors) == (2, True)
    assert not (tmp_path / "ran").exists()


def test_a_link_of_a_chain_that_makes_no_progress_fails(make: Make) -> None:
    job = make("exit 75", kind="train", max_jobs=9)
    for own in ("1", "2"):
        assert link(job, own=own)[0] == 75
    code, errors = link(job, own="3")
    assert (code, "made no progress" in errors) == (1, True)
    assert json.loads(job.run.status.read_text())["state"] == "failed"


def test_an_order_reads_back_as_it_was_written(make: Make) -> None:
    job = make("true")
    assert asdict(job.order())["command"] == ["/bin/sh", "-c", "true"]
