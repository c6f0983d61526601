"""What `muster submit` refuses, above all to submit a run twice; and what a submission leaves that fails."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from muster.errors import InputError, RunLockedError
from muster.jobs.delivery import carry_out
from muster.jobs.folder import JobFolder
from muster.jobs.submission import plan_again
from muster.runs.lock import RunLock
from tests.commands import muster_here
from tests.jobs.conftest import Program

SBATCH = 'echo "$@" >> "$0.log"; echo 7$(wc -l < "$0.log")'
ON = ("--on", "slurm", "--wall-time", "1h")


@pytest.fixture
def sent(project: Path, program: Program) -> Path:
    """Where `sbatch` writes what it was called with; the first job is 71, and the queue is empty."""
    queue(program)
    return program("sbatch", SBATCH).with_name("sbatch.log")


def queue(program: Program, *lines: str) -> None:
    program("squeue", "\n".join(f"echo '{line}'" for line in ("JOBID|STATE|START_TIME|REASON", *lines)))


def test_an_array_of_which_one_run_lives_is_not_submitted_again(sent: Path, program: Program) -> None:
    flags = ("exp.toml", *ON, "--seeds", "2", "--name", "s")
    assert muster_here("submit", *flags).code == 0
    queue(program, "71_2|RUNNING|N/A|None")
    for again in (("s", "--resume"), (*flags, "--resume")):
        done = muster_here("submit", *again)
        assert (done.code, "seed-1: is starting, so it is not submitted again" in done.err) == (2, True)
    assert len(sent.read_text().splitlines()) == 1


def test_an_array_is_continued_as_a_whole(sent: Path, program: Program, project: Path) -> None:
    assert muster_here("submit", "exp.toml", *ON, "--seeds", "2", "--name", "s").code == 0
    runs = [JobFolder(project / "runs" / "s" / f"seed-{seed}") for seed in (0, 1)]
    for task, run in enumerate(runs, start=1):
        run.add("started", link=1, job_id=f"71_{task}", progress=0)
        run.add("ended", link=1, job_id=f"71_{task}", exit_code=75)
    assert muster_here("submit", "s", "--resume", "--max-jobs", "4").code == 0
    assert [run.submitted() for run in runs] == [["72_1"], ["72_2"]]
    assert {(run.order().links_before, run.order().max_jobs) for run in runs} == {(1, 4)}


@pytest.mark.parametrize("name", ["a/b", "..", ".", "", "/tmp/x", "x" * 101, "-x", "a\nb", "it's", " "])
def test_a_name_that_training_would_refuse_is_refused(sent: Path, project: Path, name: str) -> None:
    for flags in ((), ("--resume",)):
        done = muster_here("submit", "exp.toml", *ON, f"--name={name}", *flags)
        assert (done.code, "--name" in done.err) == (2, True)
    assert not sent.exists()
    assert not (project / "runs").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--seeds", "2", "--", "true"], "--seeds: only for an experiment"),
        (["--seeds", "2", "--doctor"], "--seeds: only for an experiment"),
        (["--set", "seed=1", "--", "true"], "--set: only for an experiment"),
        (["--doctor", "--", "true"], "--doctor or a command, not both"),
        (["exp.toml", "--render", "."], "--render .: is a folder"),
        (["sweep.toml", "--seeds", "2"], "sweep.toml has a [sweep]"),
    ],
)
def test_what_does_not_go_together_is_refused(sent: Path, project: Path, words: list[str], expected: str) -> None:
    search = '\n[sweep.parameters]\n"algorithm.lr" = { grid = [0.1, 0.2] }\n'
    (project / "sweep.toml").write_text((project / "exp.toml").read_text() + search)
    done = muster_here("submit", *ON, *words)
    assert done.code == 2, done.out
    assert expected in done.err
    assert not sent.exists()


def test_flags_that_the_same_script_would_not_heed_are_refused(sent: Path) -> None:
    assert muster_here("submit", "exp.toml", *ON, "--name", "a").code == 0
    done = muster_here("submit", "a", "--resume", "--wall-time", "4h", "--set", "seed=1", "--no-snapshot")
    assert done.code == 2
    assert "--wall-time, --no-snapshot, --set: a would be submitted with the same script again" in done.err


def test_resume_without_a_name_continues_the_last_run_of_its_kind(sent: Path, program: Program) -> None:
    assert muster_here("submit", "exp.toml", *ON).code == 0
    queue(program, "71|RUNNING|N/A|None")
    assert muster_here("submit", "exp.toml", *ON, "--resume").code == 2
    queue(program)
    done = muster_here("submit", "exp.toml", *ON, "--resume", "--json")
    assert json.loads(done.out)["run"].endswith("/sim-ppo")


def test_a_run_that_is_being_trained_is_not_submitted(sent: Path, project: Path) -> None:
    status = {"state": "running", "host": "laptop", "updated": time.time()}
    run = project / "runs" / "a"
    run.mkdir(parents=True)
    (run / "status.json").write_text(json.dumps(status))
    done = muster_here("submit", "exp.toml", *ON, "--name", "a", "--resume")
    assert (done.code, "is running on laptop" in done.err) == (2, True)


def test_a_refused_continuation_leaves_the_run_as_it_was(sent: Path, program: Program, project: Path) -> None:
    run = JobFolder(project / "runs" / "a")
    run.path.mkdir(parents=True)
    run.cancel.touch()
    (run.path / "experiment.toml").write_text("")
    program("sbatch", "exit 1")
    assert muster_here("submit", "exp.toml", *ON, "--name", "a", "--resume").code == 1
    assert sorted(path.name for path in run.path.iterdir()) == ["cancel", "experiment.toml"]


def test_of_two_submissions_at_once_one_is_refused(sent: Path, project: Path) -> None:
    assert muster_here("submit", "exp.toml", *ON, "--name", "a").code == 0
    job = JobFolder(project / "runs" / "a")
    first, second = plan_again(job, 5), plan_again(job, 5)
    with RunLock(job.lock), pytest.raises(RunLockedError):
        carry_out(first)
    carry_out(first)
    with pytest.raises(InputError, match="another process has just submitted it"):
        carry_out(second)
    assert len(sent.read_text().splitlines()) == 2


@pytest.mark.parametrize("number", ["INT", "TERM"])
def test_a_job_that_was_sent_when_a_signal_came_is_taken_back(
    project: Path, program: Program, number: str
) -> None:
    log = program("scancel", 'echo "$1" >> "$0.log"').with_name("scancel.log")
    program("sbatch", f"kill -{number} $PPID; echo 71")
    done = muster_here("submit", "exp.toml", *ON, "--name", "a")
    assert (done.code, f"interrupted by SIG{number}" in done.err) == (1, True)
    assert log.read_text() == "71\n"
    assert not (project / "runs" / "a").exists()


def test_a_job_that_cannot_be_taken_back_is_named(project: Path, program: Program) -> None:
    program("scancel", "exit 1")
    program("sbatch", f'case "$*" in *:71*) echo "limit reached" >&2; exit 1;; esac; {SBATCH}')
    done = muster_here("submit", "exp.toml", *ON, "--chain", "ahead")
    assert done.code == 1
    assert "limit reached" in done.err
    assert "still in the queue, cancel them yourself: 71" in done.err
