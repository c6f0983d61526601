"""Records, answers and settings that are not what they should be: nothing crashes, and nothing is done wrongly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster.jobs.commands import ask, user_name
from muster.jobs.folder import JobFolder, Order
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
