"""`muster submit` and what follows on a real Slurm, as an unprivileged user on the login host."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.commands import policy_bytes, timeless_metrics, wait_until
from tests.lab.cluster import Lab
from tests.lab.slurm import Slurm
from tests.lab.test_launch import MUSTER, assert_nothing_is_left

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

USER = "daemon"
SIMULATOR = """
import time
import gymnasium


class Slow(gymnasium.Wrapper):
    def __init__(self, delay=0.0):
        super().__init__(gymnasium.make("CartPole-v1"))
        self.delay = delay

    def step(self, action):
        time.sleep(self.delay)
        return super().step(action)
"""
EXPERIMENT = """
[env]
id = "slow.py:Slow"
config = {{ delay = {delay} }}

[resources]
workers = 2

[checkpoint]
every = 5

[stop]
iterations = {iterations}
"""
SWEEP = """
[sweep]
trials = 2
concurrent = 1

[sweep.parameters]
"algorithm.lr" = { uniform = [1e-4, 1e-3] }
"""
ENDED = ("finished", "failed", "lost", "stopped", "cancelled")


class Desk:
    """The user's folder on the shared file system, and the commands typed on the login host."""

    def __init__(self, lab: Lab, folder: Path, user: str = USER) -> None:
        self._lab = lab
        self._user = user
        self.folder = folder
        self._home = folder / "home"
        self._home.mkdir()
        for path in (folder, self._home):
            shutil.chown(path, user)
        (folder / "slow.py").write_text(SIMULATOR)

    def experiment(self, iterations: int, delay: float = 0.0, more: str = "") -> None:
        (self.folder / "exp.toml").write_text(EXPERIMENT.format(iterations=iterations, delay=delay) + more)

    def popen(self, *arguments: str) -> subprocess.Popen[str]:
        output = (self.folder / f"{arguments[0]}.log").open("w")
        return self._lab.login.popen(
            [MUSTER, *arguments],
            user=self._user,
            cwd=self.folder,
            env=self._environment,
            stdout=output,
            stderr=output,
        )

    def type(self, *arguments: str) -> str:
        done = self._lab.login.run(
            [MUSTER, *arguments],
            user=self._user,
            cwd=self.folder,
            env=self._environment,
            check=False,
            limit_s=150,
        )
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def submit(self, *arguments: str, name: str = "a", wall_time: str = "5m") -> dict[str, Any]:
        flags = (
            "--on",
            "slurm",
            "--nodes",
            "2",
            "--cpus",
            "4",
            "--wall-time",
            wall_time,
            "--json",
            "--name",
            name,
        )
        found: dict[str, Any] = json.loads(self.type("submit", *flags, *arguments))
        return found

    def status(self, name: str = "a") -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.type("status", name, "--json"))
        return found

    def wait_for(self, *states: str, name: str = "a", seconds: float = 60) -> dict[str, Any]:
        """Wait for one of the states, or the end; a job that was queued again is let start at once."""
        deadline = time.monotonic() + seconds
        while (found := self.status(name))["state"] not in (*states, *ENDED):
            assert time.monotonic() < deadline, (found, self.output(name))
            if found["reason"] == "BeginTime":
                self._lab.login.run(
                    ["scontrol", "update", f"JobId={found['job_id']}", "StartTime=now"], check=False
                )
            time.sleep(0.3)
        return found

    def run(self, name: str = "a") -> Path:
        return self.folder / "runs" / name

    def output(self, name: str = "a") -> str:
        return "\n".join(path.read_text() for path in sorted((self.run(name) / "job").glob("*.out")))

    def require_state(self, state: str, found: dict[str, Any]) -> None:
        assert found["state"] == state, (found, self.output())

    @property
    def _environment(self) -> dict[str, str]:
        return {"HOME": str(self._home), "COLUMNS": "120"}


@pytest.fixture
def desk(lab: Lab, slurm: Slurm, shared: Path) -> Desk:
    return Desk(lab, shared)


def queue(lab: Lab) -> str:
    return lab.login.run(["squeue", "--noheader"]).stdout


def test_a_run_goes_through_every_state_and_is_what_was_submitted(lab: Lab, desk: Desk) -> None:
    desk.experiment(iterations=30)
    job = desk.submit("exp.toml", "--directive=--hold")["jobs"][0]
    held = desk.status()
    assert (held["state"], held["reason"], held["job_id"]) == ("queued", "JobHeldUser", job)
    (desk.folder / "slow.py").write_text("raise SystemExit('edited after the submission')\n")
    following = desk.popen("logs", "-f", "a")
    attached = desk.popen("attach", "a")
    lab.login.run(["scontrol", "release", job])
    seen = {desk.wait_for(state)["state"] for state in ("starting", "running", "finished")}
    assert seen == {"starting", "running", "finished"}, desk.output()
    assert following.wait(timeout=40) == 0
    assert "finished: 30 iterations done" in (desk.folder / "logs.log").read_text()
    assert attached.wait(timeout=40) == 0
    assert "finished: 30 iterations done" in (desk.folder / "attach.log").read_text()
    assert "30 iterations" in desk.type("status", "a")
    wait_until(lambda: not queue(lab), "the next link to leave the queue")
    assert_nothing_is_left([lab.login, *lab.nodes])


@pytest.mark.long
def test_a_cancelled_run_has_saved_and_nothing_is_left(lab: Lab, desk: Desk) -> None:
    desk.experiment(iterations=10_000)
    desk.submit("exp.toml")
    desk.require_state("running", desk.wait_for("running"))
    attached = desk.popen("attach", "a")
    wait_until(lambda: "steps" in (desk.folder / "attach.log").read_text(), "attach to show progress")
    attached.send_signal(signal.SIGINT)
    assert attached.wait(timeout=10) == 0
    assert "detached; the run continues" in (desk.folder / "attach.log").read_text()
    assert desk.status()["state"] in ("running", "saving")  # it saves every few iterations
    desk.type("cancel", "a")
    assert desk.status()["state"] == "cancelled"
    assert (desk.run() / "checkpoints" / "latest" / "policy.npz").is_file()
    wait_until(lambda: not queue(lab), "the queue to be empty")
    assert_nothing_is_left([lab.login, *lab.nodes])
    links = [json.loads(line)["event"] for line in (desk.run() / "jobs.jsonl").read_text().splitlines()]
    assert links.count("started") == 1


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("way", "fault"),
    [
        ("requeue", None),
        ("dependency", None),
        ("ahead", None),
        ("dependency", "link"),
        ("dependency", "training"),
        ("ahead", "host"),
        ("requeue", "host"),
        ("dependency", "other host"),
    ],
)
def test_a_chain_past_the_wall_time_learns_what_one_run_does(
    lab: Lab, desk: Desk, way: str, fault: str | None
) -> None:
    iterations = 60 if fault else 150
    desk.experiment(iterations=iterations, delay=0.001)
    desk.submit("exp.toml", "--chain", way, "--max-jobs", "8", wall_time="60s" if fault else "2m")
    if fault is not None:
        wait_until(lambda: desk.status()["iteration"] > 12, "some iterations", 90)
        break_something(lab, fault)
    ended = desk.wait_for("finished", seconds=600)
    desk.require_state("finished", ended)
    assert ended["link"] >= 2
    desk.experiment(iterations=iterations)
    desk.type("train", "exp.toml", "--name", "whole", "--workers", "0", "--quiet")
    if fault == "other host":
        return  # its simulators were lost in the middle of their episodes
    assert timeless_metrics(desk.run()) == timeless_metrics(desk.run("whole"))
    if fault is None:
        assert policy_bytes(desk.run()) == policy_bytes(desk.run("whole"))
    wait_until(lambda: not queue(lab), "the queue to be empty", 90)


def break_something(lab: Lab, what: str) -> None:
    if what in ("host", "other host"):
        lab.nodes[0 if what == "host" else 1].crash()
        return
    word = "link" if what == "link" else "train"
    [victim, *_] = [
        process
        for process in lab.nodes[0].processes()
        if word in process.command and "--cluster" not in process.command
    ]
    os.kill(victim.pid, signal.SIGKILL)


@pytest.mark.long
def test_a_run_that_is_killed_without_a_chain_is_lost_and_can_be_submitted_again(lab: Lab, desk: Desk) -> None:
    desk.experiment(iterations=60, delay=0.001)
    desk.submit("exp.toml", "--chain", "none")
    wait_until(lambda: desk.status()["iteration"] > 6, "some iterations", 90)
    break_something(lab, "link")
    desk.require_state("lost", desk.wait_for("lost"))
    desk.type("submit", "a", "--resume")
    desk.require_state("finished", desk.wait_for("finished", seconds=120))
    assert desk.status()["link"] == 2


@pytest.mark.long
def test_seeds_are_an_array_each_with_its_own_run(lab: Lab, desk: Desk) -> None:
    desk.experiment(iterations=3)
    desk.submit("exp.toml", "--seeds", "3", "--nodes", "1", name="several")
    for seed in range(3):
        desk.require_state("finished", desk.wait_for("finished", name=f"several/seed-{seed}", seconds=120))
    assert "seed-2" in desk.type("status", "several")
    desk.type("train", "exp.toml", "--set", "seed=2", "--name", "whole", "--workers", "0", "--quiet")
    assert timeless_metrics(desk.run("several/seed-2")) == timeless_metrics(desk.run("whole"))


@pytest.mark.long
def test_a_sweep_is_one_job(lab: Lab, desk: Desk) -> None:
    desk.experiment(iterations=3, more=SWEEP)
    desk.submit("exp.toml")
    desk.require_state("finished", desk.wait_for("finished", seconds=150))
    assert len(list(desk.run().glob("trial-*"))) == 2


@pytest.mark.long
def test_any_command_runs_under_a_launch_and_chains_if_it_ends_with_75(lab: Lab, desk: Desk) -> None:
    (desk.folder / "twice.py").write_text(
        "import pathlib, sys, ray\n"
        "ray.init(logging_level='error')\n"
        "count = pathlib.Path('count')\n"
        "seen = count.read_text() if count.exists() else ''\n"
        "count.write_text(seen + f'{len(ray.nodes())} ')\n"
        "sys.exit(75 if len(seen) < 3 else 0)\n"
    )
    python = str(Path(MUSTER).with_name("python"))
    flags = ("--on", "slurm", "--nodes", "2", "--cpus", "2", "--wall-time", "3m", "--name", "a")
    desk.type("submit", *flags, "--", python, "twice.py")
    (desk.folder / "twice.py").unlink()
    desk.require_state("finished", desk.wait_for("finished", seconds=120))
    assert (desk.folder / "count").read_text() == "2 2 2 "
    assert desk.status()["link"] == 3


@pytest.mark.long
def test_the_doctor_looks_at_the_hosts_of_a_job(lab: Lab, desk: Desk) -> None:
    desk.experiment(iterations=3)
    desk.submit("exp.toml", "--doctor", name="look")
    desk.require_state("finished", desk.wait_for("finished", name="look", seconds=90))
    assert "2 hosts: no problems" in desk.output("look")


@pytest.mark.long
def test_a_scheduler_that_does_not_answer_harms_neither_the_run_nor_its_chain(lab: Lab, desk: Desk) -> None:
    desk.experiment(iterations=50, delay=0.001)
    desk.submit("exp.toml", wall_time="60s")
    desk.wait_for("running")
    lab.login.run(["mount", "--bind", "/bin/false", "/usr/bin/squeue"])
    try:
        found = desk.status()
        assert (found["state"], "squeue failed with code 1" in found["reason"]) == ("unknown", True)
    finally:
        lab.login.run(["umount", "/usr/bin/squeue"])
    desk.require_state("finished", desk.wait_for("finished", seconds=200))
    assert desk.status()["link"] == 2
