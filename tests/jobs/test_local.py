"""Jobs on this machine, as real processes: they outlive their terminal, and no other process is taken for one."""

from __future__ import annotations

import json
import os
import pty
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from muster.clusters import ray_guard
from muster.clusters.named import FoundCluster, NamedCluster
from muster.environment_variables import LOCAL_JOB_VARIABLE
from muster.errors import JobError
from muster.jobs import cancelling, delivery, detached, processes
from muster.jobs.cancelling import cancel_runs
from muster.jobs.delivery import carry_out
from muster.jobs.folder import JobFolder, Order, list_jobs
from muster.jobs.processes import JobProcess, this_host
from muster.jobs.schedulers.local import SCHEDULER
from muster.jobs.schedulers.model import Scheduler
from muster.jobs.sending import send
from muster.jobs.states import RunState, read_states
from muster.jobs.submission import is_launched, plan_command
from muster.jobs.submission_plan import SubmitOptions
from tests.commands import MUSTER, environment, muster_here, timeless_metrics, wait_until

ENDS = ("finished", "failed", "cancelled", "stopped", "lost")
DETACHED = (sys.executable, "-P", "-m", "muster.jobs.detached")
UNTIL_GO = "until test -e go; do sleep 0.05; done"
COUNTING = "n=$(cat count 2>/dev/null || echo 0); echo $((n + 1)) >count; test $n -ge {times} && exit 0; exit 75"
ELSEWHERE = "4711-0123abcd.elsewhere"


@pytest.fixture(autouse=True)
def nothing_left(project: Path) -> Iterator[None]:
    """Ends what a test that fails leaves."""
    yield
    for job in list_jobs(project / "runs"):
        for name in job.submitted():
            if name != ELSEWHERE:
                for pid in JobProcess.parse(name).members():
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)


def submit(command: str, *, chain: str | None = None, max_jobs: int = 1) -> JobFolder:
    """Submit a shell command."""
    cluster = NamedCluster.model_validate({"scheduler": "local", "chain": chain})
    options = SubmitOptions(
        FoundCluster("local", cluster, "test"), Path.cwd() / "runs", max_jobs=max_jobs, snapshot=False
    )
    plan = plan_command(["/bin/sh", "-c", command], options)
    carry_out(plan)
    return plan.job


def wait_for(job: JobFolder, *states: str) -> RunState:
    """Ask for a run's state until it is one of those, or an end."""
    deadline = time.monotonic() + 30
    while (state := read_states([job])[0]).state not in (*states, *ENDS):
        assert time.monotonic() < deadline, str([path.read_text() for path in job.outputs()]) + str(state)
        time.sleep(0.05)
    assert state.state in states, state
    return state


def processes_of(job: JobFolder) -> list[int]:
    return [pid for name in job.submitted() for pid in JobProcess.parse(name).members()]


def call(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*DETACHED, *words], cwd=cwd, capture_output=True, text=True, check=False)


def train(name: str, iterations: int) -> JobFolder:
    """Submit the training of CartPole."""
    settings = (
        "--set",
        "resources.workers=0",
        "--set",
        f"stop.iterations={iterations}",
        "--set",
        "stop.return=1e9",
    )
    done = muster_here("submit", "CartPole-v1", "--on", "local", "--name", name, *settings)
    assert done.code == 0, done.err
    return JobFolder(Path("runs", name).resolve())


def test_a_job_outlives_the_end_of_its_terminal(project: Path) -> None:
    command = f"{MUSTER} submit --on local --name t -- sh -c 'touch up; {UNTIL_GO}; echo done'; exec sleep 60"
    leader, terminal = pty.fork()
    if leader == 0:
        os.execve("/bin/sh", ["sh", "-c", command], environment())
    try:
        wait_until((project / "up").exists, "the job")
    finally:
        os.kill(leader, signal.SIGKILL)
        os.close(terminal)
        os.waitpid(leader, 0)
    job = JobFolder(project / "runs" / "t")
    time.sleep(0.3)
    assert wait_for(job, "running").exit_code is None
    (project / "go").touch()
    assert wait_for(job, "finished").exit_code == 0
    assert "done\n" in muster_here("logs", "t", "-f").out


def test_a_job_goes_from_running_to_its_end_and_has_no_terminal(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_TERMINAL", "kept")
    monkeypatch.setenv("MUSTER_GRACE", "1")
    shown = "test -t 0 || echo no terminal; echo $OF_THE_TERMINAL$MUSTER_GRACE; echo $MUSTER_LOCAL_JOB"
    job = submit(f"{shown}; {UNTIL_GO}; exit 3")
    assert wait_for(job, "running").job_id == job.submitted()[0]
    Path("go").touch()
    assert wait_for(job, "failed").exit_code == 3
    [output] = job.outputs()
    [name] = job.submitted()
    assert output.name == f"local-{name}.out"
    assert output.read_text() == f"muster: job {name}\nno terminal\nkept\n{name}\n"
    assert len(name) < 20 + len(this_host())


def test_a_job_waits_in_the_queue_for_the_one_before(project: Path) -> None:
    job = submit(f"{UNTIL_GO}; {COUNTING.format(times=1)}", chain="ahead", max_jobs=3)
    wait_for(job, "running")
    first, second, third = job.submitted()
    answers = SCHEDULER.ask([first, second, third])
    assert [answers[name].state for name in (first, second, third)] == ["running", "queued", "queued"]
    assert answers[second].reason == f"waits for job {first}"
    Path("go").touch()
    wait_for(job, "finished")
    assert [link.job_id for link in job.links()] == [first, second]
    wait_until(lambda: not processes_of(job), "the end of the third job")


def test_a_chain_by_dependency_ends_when_the_work_is_done(project: Path) -> None:
    job = submit(COUNTING.format(times=1), chain="dependency", max_jobs=5)
    wait_for(job, "finished")
    assert [link.exit_code for link in job.links()] == [75, 0]


def test_seeds_are_trained_one_after_another(project: Path) -> None:
    done = muster_here("submit", "exp.toml", "--on", "local", "--seeds", "2", "--name", "s")
    assert done.code == 0, done.err
    first, second = (JobFolder(project / "runs" / "s" / f"seed-{seed}") for seed in (0, 1))
    assert "waits for job" in wait_for(second, "queued").reason
    for job in (first, second):
        wait_for(job, "finished")
    before, after = first.links()[0].ended, second.links()[0].started
    assert before is not None
    assert before <= after


def test_cancelled_seeds_do_not_start_each_other(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancelling, "ASK_SECONDS", 0.2)
    assert muster_here("submit", "exp.toml", "--on", "local", "--seeds", "3", "--name", "s").code == 0
    begun = time.monotonic()
    assert muster_here("cancel", "s").code == 0
    assert time.monotonic() - begun < 15
    jobs = [JobFolder(project / "runs" / "s" / f"seed-{seed}") for seed in (0, 1, 2)]
    assert {state.state for state in read_states(jobs)} == {"cancelled"}
    assert [processes_of(job) for job in jobs] == [[], [], []]
    assert not jobs[1].links()


def test_cancel_saves_first_and_ends_every_process(project: Path) -> None:
    job = train("c", 100_000)
    wait_until(lambda: read_states([job])[0].iteration >= 2, "training")
    done = muster_here("cancel", "c")
    assert done.code == 0, done.err
    assert wait_for(job, "cancelled").exit_code == 143
    assert (job.path / "checkpoints" / "latest").exists()
    assert not processes_of(job)


def test_a_killed_run_is_lost_and_continues_to_the_same_metrics(project: Path) -> None:
    job = train("k", 20)
    wait_until(lambda: read_states([job])[0].iteration >= 3, "training")
    for pid in processes_of(job):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not processes_of(job), "the end")
    assert "`muster submit k --resume` continues it" in wait_for(job, "lost").reason
    assert muster_here("submit", "k", "--resume").code == 0
    assert wait_for(job, "finished").iteration == 20
    assert "finished: 20 iterations done" in muster_here("attach", "k").out
    whole = train("whole", 20)
    wait_for(whole, "finished")
    assert timeless_metrics(job.path) == timeless_metrics(whole.path)


def test_work_that_outlives_a_killed_link_still_runs_and_can_be_cancelled(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancelling, "SAVE_SECONDS", 0.1)
    job = submit("touch up; sleep 60")
    wait_until(lambda: Path("up").exists(), "the command")
    leader = JobProcess.parse(job.submitted()[0])
    os.kill(leader.pid, signal.SIGKILL)
    wait_until(lambda: leader.pid not in leader.members(), "the end of the link")
    assert read_states([job])[0].state == "running"
    assert cancel_runs([job], print) == [True]
    assert not leader.members()


def test_cancel_insists_on_what_ignores_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detached, "GRACE_SECONDS", 0.5)
    stubborn = "trap '' TERM; while :; do sleep 1; done"
    in_a_group = f"{sys.executable} -c 'import os, time; os.setpgid(0, 0); time.sleep(60)'"
    job = submit(f"{in_a_group} & touch up; {stubborn}")
    wait_until(lambda: Path("up").exists(), "the command")
    leader = JobProcess.parse(job.submitted()[0])
    wait_until(lambda: len({os.getpgid(pid) for pid in leader.members()}) > 1, "a second process group")
    detached.cancel(leader)
    assert not leader.members()
    assert wait_for(job, "lost").exit_code is None


def test_a_recycled_pid_is_not_taken_for_a_job(project: Path) -> None:
    other = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        assert JobProcess.of(other.pid).members() == [other.pid]
        name = f"{other.pid}-0123abcd.{this_host()}"
        assert SCHEDULER.ask([name]) == {}
        done = call("cancel", name)
        assert (done.returncode, done.stderr) == (0, "")
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_session_whose_leader_has_ended_is_not_taken_for_a_job(project: Path) -> None:
    leader = subprocess.Popen(["sh", "-c", "sleep 60 & echo $!"], stdout=subprocess.PIPE, start_new_session=True)
    assert leader.stdout is not None
    left = int(leader.stdout.readline())
    leader.wait()
    try:
        assert os.getsid(left) == leader.pid
        name = f"{leader.pid}-0123abcd.{this_host()}"
        assert SCHEDULER.ask([name]) == {}
        assert call("cancel", name).returncode == 0
        os.kill(left, 0)
    finally:
        os.kill(left, signal.SIGKILL)
        leader.stdout.close()


def test_a_process_that_is_not_collected_has_ended(project: Path) -> None:
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    job = JobProcess.of(process.pid)
    process.kill()
    wait_until(lambda: not job.members(), "the end")
    assert SCHEDULER.ask([str(job)]) == {}
    with pytest.raises(ProcessLookupError):
        JobProcess.of(process.pid)
    process.wait()


def test_a_job_of_another_host_is_unknown_and_left_alone(project: Path) -> None:
    here = submit("sleep 60")
    wait_for(here, "running")
    job = JobFolder(project / "runs" / "far")
    job.create(Order(kind="command", cluster="local", scheduler="local"), {"job.sh": ""})
    job.add("submitted", job_id=ELSEWHERE, anew=True)
    states = {Path(state.run).name: state for state in read_states([job, here])}
    assert (states["far"].state, states[here.path.name].state) == ("unknown", "running")
    assert f"its job is on elsewhere, and cannot be seen from {this_host()}" in states["far"].reason
    assert muster_here("submit", "far", "--resume").code == 2
    done = muster_here("cancel", "far")
    assert (done.code, "belongs to elsewhere" in done.err) == (1, True)


def test_a_job_saves_and_ends_though_it_is_cancelled_from_another_host(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit("trap 'touch saved; exit 143' TERM; touch up; while :; do sleep 0.05; done")
    wait_until(lambda: Path("up").exists(), "the command")
    with monkeypatch.context() as patched:
        patched.setattr(processes, "this_host", lambda: "elsewhere")
        patched.setattr(processes, "_mark", lambda pid: None)
        patched.setattr(processes, "living", list)
        assert read_states([job])[0].state == "unknown"
        assert cancel_runs([job], print) == [True]
    assert Path("saved").exists()
    assert wait_for(job, "cancelled").exit_code == 143


def test_a_process_of_an_earlier_boot_has_ended(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat = " ".join(["7 (odd) name) S", *map(str, range(1, 30))])
    (project / "proc" / "sys" / "kernel" / "random").mkdir(parents=True)
    for name in ("self", "7"):
        (project / "proc" / name).mkdir()
        (project / "proc" / name / "stat").write_text(stat)
    monkeypatch.setattr(processes, "PROC", project / "proc")
    boot = project / "proc" / "sys" / "kernel" / "random" / "boot_id"
    boot.write_text("first\n")
    before = JobProcess.of(7)
    assert before == JobProcess.of(7)
    boot.write_text("second\n")
    assert before != JobProcess.of(7)
    assert before.members() == []


def test_a_job_whose_output_cannot_be_written_is_not_started(project: Path) -> None:
    Path("job.sh").write_text("#!/bin/sh\ntouch ran\n")
    gone = project / "gone"
    gone.mkdir()
    in_gone = ["sh", "-c", f"cd gone && rmdir {gone} && exec {' '.join(DETACHED)} start job.sh"]
    done = subprocess.run(in_gone, capture_output=True, text=True, check=False)
    assert (done.returncode, "the job was not started: [Errno 2]" in done.stderr) == (1, True)
    full = subprocess.run(
        [*DETACHED, "start", "job.sh"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (full.returncode, full.stdout) == (1, "")
    assert "the job was not started: [Errno 27]" in full.stderr
    time.sleep(0.3)
    assert not Path("ran").exists()


def test_a_job_whose_id_cannot_be_told_is_not_started(project: Path) -> None:
    Path("job.sh").write_text("#!/bin/sh\ntouch ran\n")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*DETACHED, "start", "job.sh"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, b"the job was not started" in done.stderr) == (1, True)
    [output] = project.glob("local-*.out")
    job = JobProcess.parse(output.name.removeprefix("local-").removesuffix(".out"))
    wait_until(lambda: not job.members(), "the end")
    assert not Path("ran").exists()


def test_a_submission_that_is_interrupted_leaves_no_process(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []

    def interrupted_send(job: JobFolder, scheduler: Scheduler, *, after: str | None = None) -> str:
        names.append(send(job, scheduler, after=after))
        os.kill(os.getpid(), signal.SIGINT)
        return names[0]

    monkeypatch.setattr(delivery, "send", interrupted_send)
    with pytest.raises(JobError, match="interrupted by SIGINT"):
        submit("sleep 60")
    assert len(names) == 1
    assert not JobProcess.parse(names[0]).members()
    assert not list((project / "runs").iterdir())


@pytest.mark.skipif(shutil.which("ps") is None, reason="there is no ps")
def test_without_proc_ps_tells_the_same(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = project / "nowhere"
    for module in (ray_guard, processes):
        monkeypatch.setattr(module, "PROC", nowhere)
    environ = {**os.environ, LOCAL_JOB_VARIABLE: "1-0123abcd.here"}
    process = subprocess.Popen(["sleep", "60"], start_new_session=True, env=environ)
    job = JobProcess.of(process.pid)
    assert (job.members(), job.arguments()) == ([process.pid], ["sleep", "60"])
    assert replace(job, mark="0123abcd").members() == []
    assert b"MUSTER_LOCAL_JOB=1-0123abcd.here" in processes._environment(process.pid)
    process.kill()
    wait_until(lambda: not job.members(), "the end")
    process.wait()
    assert job.members() == []


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"scheduler": "local"}, False),
        ({"scheduler": "ssh"}, True),
        ({"scheduler": "local", "hosts": ["a", "b"]}, True),
        ({"scheduler": "local", "container": "image.sif"}, True),
        ({"scheduler": "slurm"}, True),
    ],
)
def test_this_machine_alone_needs_no_launch(table: dict[str, object], expected: bool) -> None:
    assert is_launched(NamedCluster.model_validate(table)) is expected


@pytest.mark.parametrize(
    "flags", [("--cpus", "2"), ("--nodes", "2"), ("--queue", "q"), ("--memory", "2G"), ("--directive", "-x")]
)
def test_what_would_have_no_effect_is_refused(project: Path, flags: Sequence[str]) -> None:
    done = muster_here("submit", "exp.toml", "--on", "local", *flags)
    assert (done.code, "without effect" in done.err) == (2, True)
    assert not list(project.glob("runs/*"))


def test_what_may_be_left_out_may_be_named(project: Path) -> None:
    done = muster_here("submit", "exp.toml", "--on", "local", "--nodes", "1", "--memory", "false", "--dry-run")
    assert done.code == 0, done.err
    assert "local" in muster_here("clusters").out.splitlines()[-1]
    assert json.loads(muster_here("clusters", "--json").out)
