"""States of submitted runs, above all when the scheduler does not say."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from muster.jobs import commands
from muster.jobs.folder import JobFolder
from tests.commands import muster_here
from tests.jobs.conftest import Program

HEADING = "JOBID|STATE|START_TIME|REASON"


@pytest.fixture
def job(project: Path, program: Program) -> JobFolder:
    """A run that was submitted as job 1."""
    program("sbatch", "echo 1")
    done = muster_here("submit", "exp.toml", "--on", "slurm", "--wall-time", "1h", "--name", "a")
    assert done.code == 0, done.err
    return JobFolder(project / "runs" / "a")


def state() -> dict[str, Any]:
    done = muster_here("status", "a", "--json")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def says(program: Program, *lines: str) -> None:
    program("squeue", "\n".join(f"echo '{line}'" for line in (HEADING, *lines)))


def test_states_follow_the_scheduler_and_the_run_s_own_record(job: JobFolder, program: Program) -> None:
    says(program, "1|PENDING|2030-01-01T00:00:00|Resources", "2|RUNNING|N/A|None")
    assert [state()[key] for key in ("state", "reason", "start")] == ["queued", "Resources", "2030-01-01T00:00:00"]
    says(program, "1|RUNNING|2026-01-01T00:00:00|None")
    assert state()["state"] == "starting"
    job.add("started", link=1, job_id="1", progress=0)
    assert state()["state"] == "starting"
    says(program)
    assert state()["state"] == "lost"
    job.add("ended", link=1, job_id="1", exit_code=75)
    assert state()["state"] == "stopped"
    says(program, "1|PENDING|N/A|BeginTime")
    assert state()["state"] == "queued"
    job.add("started", link=2, job_id="1", progress=10)
    job.add("ended", link=2, job_id="1", exit_code=0)
    program("squeue", "exit 1")
    assert state()["state"] == "finished"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("sleep 60", "squeue did not answer within 0.5 s"),
        ("echo 'what?'", "squeue answered what is not understood: what?"),
        ("true", "squeue answered what is not understood: nothing"),
        ("echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1", "slurm_load_jobs error"),
        (f"echo '{HEADING}'; echo '1|HUNGRY|N/A|None'", "a state that is not known: 1|HUNGRY"),
    ],
)
@pytest.mark.parametrize("started", [False, True])
def test_a_scheduler_that_does_not_answer_gives_unknown_and_nothing_is_done(
    job: JobFolder, program: Program, monkeypatch: pytest.MonkeyPatch, answer: str, reason: str, started: bool
) -> None:
    monkeypatch.setattr(commands, "ANSWER_SECONDS", 0.5)
    program("squeue", answer)
    acted = program("sbatch", 'echo "$@" >> "$0.log"; echo 2').with_name("sbatch.log")
    if started:
        job.add("started", link=1, job_id="1", progress=0)
    found = state()
    assert found["state"] == "unknown"
    assert reason in found["reason"]
    assert muster_here("status").code == 0
    assert muster_here("submit", "a", "--resume").code == 2
    assert not acted.exists()


def test_a_run_that_no_longer_is_in_the_queue_can_be_submitted_again(job: JobFolder, program: Program) -> None:
    says(program)
    assert state()["state"] == "lost"
    program("sbatch", "echo 2")
    done = muster_here("submit", "a", "--resume")
    assert done.code == 0, done.err
    says(program, "2|PENDING|N/A|Priority")
    found = state()
    assert (found["state"], found["job_id"]) == ("queued", "2")


def test_a_queued_run_is_cancelled_and_stays_so(job: JobFolder, program: Program) -> None:
    says(program, "1|PENDING|N/A|Resources")
    log = program("scancel", 'echo "$@" >> "$0.log"').with_name("scancel.log")
    assert muster_here("cancel", "a").code == 0
    assert log.read_text() == "1\n"
    says(program)
    assert state()["state"] == "cancelled"
    assert muster_here("cancel", "a").out.endswith("has ended already\n")


def test_a_cancel_that_fails_is_shown_and_the_mark_stays(job: JobFolder, program: Program) -> None:
    program("squeue", "exit 1")
    program("scancel", "echo no connection >&2; exit 1")
    done = muster_here("cancel", "a")
    assert done.code == 1
    assert "scancel 1: failed with code 1\n    no connection" in done.err
    assert job.cancel.exists()


def test_ids_that_no_scheduler_gives_are_not_passed_to_it(job: JobFolder, program: Program) -> None:
    job.add("submitted", job_id="--user=victim", anew=True)
    says(program, "1|PENDING|N/A|Resources")
    log = program("scancel", 'echo "$@" >> "$0.log"').with_name("scancel.log")
    assert muster_here("cancel", "a").code == 0
    assert log.read_text() == "1\n"


def test_damaged_records_of_one_run_do_not_hide_the_others(job: JobFolder, program: Program) -> None:
    says(program, "1|PENDING|N/A|Resources")
    other = job.path.with_name("b") / "job"
    other.mkdir(parents=True)
    for content in (
        "{",
        "[]",
        '{"kind": "train"}',
        '{"kind":"train","cluster":"x","scheduler":"../x"}',
        "[" * 100_000,
    ):
        (other / "job.json").write_text(content)
        done = muster_here("status")
        assert done.code == 0
        assert "a    queued" in done.out
        assert "job.json: cannot be read" in done.err
        assert muster_here("status", "b").code == 2
    job.record.write_bytes(b'{"event": "submitted"}\n\xff\xff\n{"event": 3, "job_id": {}}\n')
    assert state()["state"] == "lost"


def test_a_run_that_was_not_submitted_says_so(project: Path) -> None:
    assert muster_here("train", "CartPole-v1", "--stop-iterations", "1", "--workers", "0", "--name", "t").code == 0
    done = muster_here("status", "t")
    assert (done.code, "was not submitted as a job" in done.err) == (2, True)
    assert muster_here("status", "nothing").code == 2


def test_logs_are_printed_link_after_link(job: JobFolder) -> None:
    for number in (1, 2):
        (job.folder / f"{number}.out").write_text(f"link {number}\n")
        time.sleep(0.01)
    assert muster_here("logs", "a").out == "link 1\nlink 2\n"
    assert "no log of it" in muster_here("logs", "a", "--host", "node1").err
