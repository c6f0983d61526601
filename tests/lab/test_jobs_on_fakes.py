"""`muster submit` on the fake schedulers over real hosts: their launchers start the ranks, a chain trains on."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands import wait_until
from tests.fakes.core import HostEntry
from tests.fakes.jobs import DONE
from tests.fakes.site import FakeSite
from tests.lab.cluster import Lab
from tests.lab.sshd import Sshd
from tests.lab.test_jobs import EXPERIMENT, SIMULATOR
from tests.lab.test_launch import MUSTER, assert_nothing_is_left

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(400)]

HOSTS = tuple(HostEntry(f"node{number}", cpus=4) for number in (1, 2, 3))
NO_MPI = "class rc:\n    initialize = True\n"
"""An mpi4py that finds no library: Debian's Open MPI ends all processes under an aprun it was not built for."""
ENDED = ("finished", "failed", "lost", "stopped", "cancelled")


class Desk:
    """A folder on the shared file system, and commands typed on the login host with a scheduler on PATH."""

    def __init__(self, lab: Lab, folder: Path, site: FakeSite) -> None:
        self._lab = lab
        self.folder = folder
        self.site = site
        (folder / "slow.py").write_text(SIMULATOR)
        (folder / "no-mpi").mkdir()
        (folder / "no-mpi" / "mpi4py.py").write_text(NO_MPI)
        setup = f'["export PYTHONPATH={folder}/no-mpi"]'
        (folder / "muster.toml").write_text(f'[clusters.here]\nscheduler = "{site.scheduler}"\nsetup = {setup}\n')

    def type(self, *arguments: str) -> str:
        done = self._lab.login.run(
            [MUSTER, *arguments], cwd=self.folder, env=self.site.environment, check=False, limit_s=150
        )
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def submit(self, iterations: int, *flags: str, delay: float = 0.0) -> None:
        text = EXPERIMENT.format(iterations=iterations, delay=delay)
        (self.folder / "exp.toml").write_text(text.replace("every = 5", "every = 1"))
        on = ["--on", "here", "--nodes", "3", "--cpus", "4", "--name", "a"]
        self.type("submit", "exp.toml", *on, *flags)

    def status(self) -> dict[str, Any]:
        return dict(json.loads(self.type("status", "a", "--json")))

    def wait_for(self, *states: str, seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while (found := self.status())["state"] not in (*states, *ENDED):
            assert time.monotonic() < deadline, (found, self.output())
            time.sleep(0.3)
        return found

    def output(self) -> str:
        found = [path for path in (self.folder / "runs" / "a" / "job").glob("*.*") if path.suffix != ".toml"]
        return "\n".join([*(path.read_text() for path in found), self.site.logs()])


@pytest.fixture(params=["pbs", "cobalt", "lsf", "flux"])
def desk(request: pytest.FixtureRequest, lab: Lab, sshd: Sshd, shared: Path) -> Iterator[Desk]:
    """Each fake scheduler in turn over the three nodes; Cobalt runs job scripts on the login host."""
    scheduler: str = request.param
    service = "login" if scheduler == "cobalt" else None
    site = FakeSite(shared / "site", scheduler, HOSTS, service_host=service)
    site.write_profile(lab.layout.home)
    yield Desk(lab, shared, site)
    (lab.layout.home / ".bash_profile").unlink()


def test_a_run_trains_on_all_hosts(desk: Desk, lab: Lab) -> None:
    desk.submit(2, "--wall-time", "5m", "--max-jobs", "1")
    found = desk.wait_for(seconds=60)
    assert (found["state"], found["iteration"]) == ("finished", 2), desk.output()
    [timeline] = (desk.folder / "runs" / "a").rglob("bring-up.jsonl")
    events = [json.loads(line) for line in timeline.read_text().splitlines()]
    [joined] = [event for event in events if event["event"] == "all in"]
    assert (joined["hosts"], joined["cpus"]) == (3, 12)
    desk.site.wait(1)
    assert_nothing_is_left(lab.nodes)


def test_a_run_continues_past_its_wall_time(desk: Desk, lab: Lab) -> None:
    desk.submit(25, "--wall-time", "60s", "--chain", "dependency", delay=0.002)
    found = desk.wait_for(seconds=360)
    assert (found["state"], found["iteration"]) == ("finished", 25), desk.output()
    assert found["link"] > 1, desk.output()
    wait_until(lambda: all(job.state == DONE for job in desk.site.jobs()), "an empty queue", 30)
    assert_nothing_is_left(lab.nodes)


def test_a_cancel_saves_and_frees_all_hosts(desk: Desk, lab: Lab) -> None:
    desk.submit(1000, "--wall-time", "10m", delay=0.01)
    assert desk.wait_for("running", seconds=120)["state"] == "running", desk.output()
    wait_until(lambda: desk.status()["iteration"] >= 1, "an iteration", 60)
    desk.type("cancel", "a")
    assert desk.status()["state"] == "cancelled"
    wait_until(lambda: all(job.state == DONE for job in desk.site.jobs()), "an empty queue", 30)
    assert list((desk.folder / "runs" / "a" / "checkpoints").glob("0*"))
    assert_nothing_is_left(lab.nodes)
