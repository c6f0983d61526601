"""Records, answers and settings that are not what they should be: nothing crashes, and nothing is done wrongly."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import pytest

from muster.errors import JobError
from muster.jobs import cancelling, logs
from muster.jobs.commands import UnansweredError, ask, user_name
from muster.jobs.folder import JobFolder, Link, Order
from muster.jobs.logs import harmless
from muster.jobs.schedulers import SCHEDULERS
from muster.jobs.states import read_states
from tests.commands import muster_here
from tests.jobs.conftest import Program

HEADING = "JOBID|STATE|START_TIME|REASON"
NUMBERS = ('"x"', "[]", "-1", "1e999", "NaN", "9" * 400, "true", "{}", "null")


@pytest.fixture
def job(project: Path, program: Program) -> JobFolder:
    """A run that was submitted as job 1, which runs."""
    program("squeue", f"echo '{HEADING}'; echo '1|RUNNING|N/A|None'")
    job = JobFolder(project / "runs" / "a")
    job.create(Order(kind="train", cluster="c", scheduler="slurm", max_jobs=5), {"job.sh": ""})
    job.add("submitted", job_id="1", anew=True)
    return job


@pytest.mark.parametrize("value", NUMBERS)
def test_numbers_that_are_none_do_not_hide_a_run(job: JobFolder, value: str) -> None:
    keys = ("time", "link", "progress", "exit_code", "cpu_seconds", "memory")
    with job.record.open("a") as record:
        for key in keys:
            values = {"time": "1.0", "link": "1", "progress": "0", key: value}
            text = ", ".join(f'"{name}": {number}' for name, number in values.items())
            record.write(f'{{"event": "started", "job_id": "1", {text}}}\n')
            record.write(f'{{"event": "ended", "job_id": "1", {text}}}\n')
    usage = job.folder / "usage"
    usage.mkdir()
    (usage / "1-host.json").write_text(f'{{"cpu_seconds": {value}, "memory": {value}}}')
    assert job.usage(1) == {}
    for arguments in (("status",), ("status", "a"), ("status", "a", "--json")):
        done = muster_here(*arguments)
        assert done.code == 0, done.err


@pytest.mark.parametrize("key", ["kind", "cluster", "command", "max_jobs", "links_before", "nodes", "cpus"])
def test_an_order_of_wrong_types_is_named(job: JobFolder, key: str) -> None:
    written = json.loads(job.order_file.read_text())
    job.order_file.write_text(json.dumps({**written, key: {"a": 1}}))
    done = muster_here("status", "a")
    assert (done.code, "not what muster wrote" in done.err) == (2, True)


def test_the_scheduler_is_asked_for_all_jobs_of_the_real_user(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "somebody")
    monkeypatch.setenv("SQUEUE_PARTITION", "other")
    assert user_name() != "somebody"
    program("squeue", 'echo "$SQUEUE_PARTITION"')
    assert ask("squeue") == "\n"


def test_the_end_of_a_link_is_its_own_even_if_another_one_started_since(job: JobFolder) -> None:
    for number in (1, 2):
        job.add("started", link=number, job_id=str(number), progress=0)
    job.add("ended", link=1, job_id="1", exit_code=75)
    assert [link.exit_code for link in job.links()] == [75, None]


@pytest.mark.parametrize(
    ("scheduler", "command", "answer"),
    [
        ("pbs", "qstat", "true"),
        ("pbs", "qstat", "echo '{\"Jobs\": [1]}'"),
        ("pbs", "qstat", "exit 1"),
        ("lsf", "bjobs", "true"),
        ("lsf", "bjobs", 'echo \'{"RECORDS": [{"JOBID": "1", "STAT": "UNKWN"}]}\''),
        ("sge", "qstat", "echo '<html/>'"),
        ("cobalt", "qstat", "echo connection refused"),
        ("flux", "flux", "echo 'no broker'"),
    ],
)
def test_an_answer_that_is_none_never_means_that_a_job_has_ended(
    program: Program, scheduler: str, command: str, answer: str
) -> None:
    program(command, answer)
    with pytest.raises(UnansweredError):
        SCHEDULERS[scheduler].ask(["1"])


def test_odd_types_in_an_answer_do_no_harm(program: Program) -> None:
    program("bjobs", 'echo \'{"RECORDS": [{"JOBID": 1, "STAT": "RUN", "PEND_REASON": {"a": 1}}]}\'')
    assert SCHEDULERS["lsf"].ask(["1"])["1"].state == "running"
    program("qstat", 'echo \'{"Jobs": {"1": {"job_state": "Q", "estimated": "soon"}}}\'')
    assert SCHEDULERS["pbs"].ask(["1"])["1"].state == "queued"
    program("qstat", "exit 153")
    assert SCHEDULERS["pbs"].ask(["1"]) == {}


def test_a_job_that_starts_while_the_scheduler_is_asked_is_not_lost(job: JobFolder, program: Program) -> None:
    job.add("started", link=1, job_id="1", progress=0)
    lines = [{"event": "started", "link": 2, "job_id": "2", "time": 1.0}]
    added = "; ".join(f"echo '{json.dumps(line)}' >> {job.record}" for line in lines)
    program("squeue", f"echo '{HEADING}'; echo '2|RUNNING|N/A|None'; {added}")
    assert json.loads(muster_here("status", "a", "--json").out)["state"] == "starting"


@pytest.mark.parametrize("event", ["started", "ended"])
@pytest.mark.parametrize("reads", range(1, 13))
def test_a_run_that_changes_while_its_record_is_read_is_not_lost(
    job: JobFolder, monkeypatch: pytest.MonkeyPatch, event: str, reads: int
) -> None:
    if event == "ended":
        job.add("started", link=1, job_id="1", progress=0)
    links, count = JobFolder.links, itertools.count(1)

    def links_that_change(self: JobFolder) -> list[Link]:
        found = links(self)
        if next(count) == reads:
            self.add(event, link=1, job_id="1", progress=0, **({"exit_code": 0} if event == "ended" else {}))
        return found

    monkeypatch.setattr(JobFolder, "links", links_that_change)
    assert read_states([job])[0].state in ("starting", "running", "finished")


def test_cancel_lets_a_run_save_even_if_the_scheduler_does_not_answer(
    job: JobFolder, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancelling, "SAVE_SECONDS", 0.1)
    job.add("started", link=1, job_id="1", progress=0)
    program("squeue", "exit 1")
    program("scancel", "true")
    done = muster_here("cancel", "a")
    assert (done.code, "job 1 is running: waiting until it has saved" in done.err) == (0, True)


def test_a_job_that_ended_while_it_was_cancelled_is_no_failure(job: JobFolder, program: Program) -> None:
    program("squeue", f"echo '{HEADING}'; [ -e {job.path}/gone ] || echo '1|PENDING|N/A|None'")
    program("scancel", f"touch {job.path}/gone; echo 'Invalid job id' >&2; exit 1")
    assert muster_here("cancel", "a").code == 0


def test_all_runs_of_an_array_are_told_to_save_before_any_is_waited_for(
    project: Path, job: JobFolder, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = JobFolder(project / "runs" / "b")
    other.create(job.order(), {})
    other.add("submitted", job_id="2", anew=True)
    program("squeue", f"echo '{HEADING}'; echo '1|PENDING|N/A|None'; echo '2|PENDING|N/A|None'")
    program("scancel", "exit 1")
    with pytest.raises(JobError):
        cancelling.cancel_runs([job, other], print)
    assert job.is_cancelled()
    assert other.is_cancelled()


def test_logs_skip_what_is_no_file(job: JobFolder) -> None:
    folder = job.path / "launches" / "1" / "logs"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "pipe.log")
    (folder / "nowhere.log").symlink_to("missing")
    (folder / "node1\x1b[2J.log").write_text("")
    done = muster_here("logs", "a", "--host", "pipe")
    assert done.code == 2
    assert "\x1b[2J" not in done.err


def test_a_terminal_is_not_controlled_by_a_record(job: JobFolder) -> None:
    job.create(Order(kind="train", cluster="\x1b[2Jc", scheduler="slurm", max_jobs=5), {})
    for arguments in (("status",), ("status", "a")):
        assert "\x1b[2J" not in muster_here(*arguments).out


def test_what_a_job_printed_does_not_control_a_terminal() -> None:
    assert harmless(b"\x1b[31mred\x1b[0m\t\r\n") == b"\x1b[31mred\x1b[0m\t\r\n"
    for sequence in (b"\x1b]0;title\x07", b"\x1b[2J", b"\xc2\x9b2J", b"\x1b[5n", b"a\x08"):
        shown = harmless(sequence).decode()
        assert all(character.isprintable() for character in shown)


def test_attach_ends_when_the_job_is_gone(
    job: JobFolder, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "ASK_SECONDS", 0.0)
    job.add("started", link=1, job_id="1", progress=0)
    job.run.status.write_text('{"state": "running", "reason": "\\u001b[2J", "updated": 1.0}')
    job.run.events.touch()
    program("squeue", f"echo '{HEADING}'")
    done = muster_here("attach", "a")
    assert done.code == 0
    end = "lost: its job is gone and recorded no end: killed, or a host was lost; `muster submit a --resume`"
    assert " ".join(done.out.split()).endswith(f"{end} continues it")


def test_a_link_outside_of_a_job_is_refused(job: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    done = muster_here("link", str(job.path))
    assert (done.code, "SLURM_JOB_ID is not set" in done.err) == (2, True)


def test_names_of_runs_are_never_cut_in_the_list(
    project: Path, job: JobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    member = JobFolder(project / "runs" / ("long-name-" * 4) / "seed-1")
    member.create(job.order(), {})
    assert f"{'long-name-' * 4}/seed-1" in muster_here("status").out
