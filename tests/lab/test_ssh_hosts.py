"""Runs on machines under ssh that share no file system, and on a site's Slurm from a laptop: as a plain user."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.commands import timeless_metrics, wait_until
from tests.lab.cluster import Lab
from tests.lab.host import Host
from tests.lab.researcher import Researcher
from tests.lab.services import DAEMONS
from tests.lab.slurm import Slurm
from tests.lab.sshd import Sshd
from tests.lab.test_launch import MUSTER

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

SIMULATOR = """
import time
import gymnasium

EDITION = {edition}


class Slow(gymnasium.Wrapper):
    def __init__(self, delay=0.0):
        super().__init__(gymnasium.make("CartPole-v1"))
        self.delay = delay
        print("edition", EDITION, flush=True)

    def step(self, action):
        time.sleep(self.delay)
        return super().step(action)
"""
EXPERIMENT = """
[env]
id = "slow.py:Slow"
config = {{ delay = 0.0002 }}

[resources]
workers = "auto"

[checkpoint]
every = 2

[stop]
iterations = {iterations}
"""
CLUSTER = """
[clusters.mine]
scheduler = "ssh"
hosts = {hosts}
cpus = 2
{more}
"""


class Desk:
    """A project on the laptop alone, and the commands typed there."""

    def __init__(self, user: Researcher) -> None:
        self.user = user
        self.simulator(1)
        self.experiment(4)

    def simulator(self, edition: int) -> None:
        self.user.write(self.user.laptop, "project/slow.py", SIMULATOR.format(edition=edition))

    def experiment(self, iterations: int) -> None:
        text = EXPERIMENT.format(iterations=iterations)
        self.user.write(self.user.laptop, "project/exp.toml", text)

    def clusters(self, text: str) -> None:
        self.user.write(self.user.laptop, "project/muster.toml", text)

    def hosts(self, *names: str, more: str = f'environment = "{sys.prefix}"') -> None:
        self.clusters(CLUSTER.format(hosts=json.dumps(names), more=more))

    def type(self, *arguments: str, code: int = 0) -> str:
        done = self.user.type(MUSTER, *arguments, check=False)
        assert done.returncode == code, f"{arguments}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def status(self, name: str = "a") -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.type("status", name, "--json").splitlines()[-1])
        return found

    def await_state(self, *states: str, name: str = "a", seconds: float = 60) -> None:
        wait_until(lambda: self.status(name)["state"] in states, f"{name} to be {states}", seconds)

    @property
    def runs(self) -> Path:
        """The runs on the laptop, as the machine sees them."""
        return self.user.laptop.path(self.user.project / "runs")


@pytest.fixture
def desk(lab: Lab, sshd: Sshd) -> Desk:
    return Desk(Researcher(lab, sshd, lab.login, lab.nodes))


def remains(host: Host) -> list[str]:
    """What a host has of the user's: files below home and /tmp, and processes but those of ssh."""
    home = [path.name for path in host.path(Researcher.home).iterdir() if path.name != ".ssh"]
    temporary = [path.name for path in host.path("/tmp").iterdir() if path.name.startswith("muster-")]
    return home + temporary + [process.name for process in host.processes() if process.name not in DAEMONS]


def only_files_are_left(host: Host) -> bool:
    return remains(host) == [".muster"]


def cut_connections(laptop: Host) -> None:
    for process in laptop.processes():
        if process.name == "ssh":
            os.kill(process.pid, signal.SIGKILL)


@pytest.mark.long
def test_a_run_over_three_hosts_that_share_nothing(lab: Lab, desk: Desk) -> None:
    desk.hosts("node1", "node2", "node3")
    desk.experiment(2000)
    desk.type("submit", "exp.toml", "--on", "mine", "--name", "a")
    assert "fetch a" in desk.type("show", "a", code=2)
    desk.await_state("running")
    cut_connections(desk.user.laptop)
    wait_until(lambda: desk.status()["steps"] > 4 * 2048, "steps after the connections were cut", 60)
    assert token_places(lab) == []
    desk.type("fetch", "a")
    assert (desk.runs / "a" / "checkpoints" / "latest").exists()
    assert "Ray runtime started" in desk.type("logs", "a", "--host", "node2")
    desk.type("cancel", "a")
    assert desk.status()["state"] == "cancelled"
    for host in lab.nodes:
        wait_until(partial(only_files_are_left, host), f"the end of all on {host.name}", 20)

    desk.simulator(2)
    desk.experiment(4)
    desk.type("submit", "exp.toml", "--on", "mine", "--name", "b")
    assert "finished" in desk.type("attach", "b")
    assert "edition 2" in desk.type("logs", "b")
    for host in lab.nodes:
        copied = host.path(Researcher.home / ".muster/mine/runs/b/code/slow.py").read_text()
        assert "EDITION = 2" in copied
        assert "EDITION = 1" in host.path(Researcher.home / ".muster/mine/runs/a/code/slow.py").read_text()
    table = desk.type("status")
    assert "cancelled" in table and "finished" in table
    desk.type("fetch", "b")
    desk.type("evaluate", "b", "--episodes", "2")
    desk.type("submit", "exp.toml", "--on", "local", "--name", "here", "--set", "resources.workers=0")
    desk.await_state("finished", name="here")
    assert timeless_metrics(desk.runs / "here") == timeless_metrics(desk.runs / "b")

    assert "removed" in desk.type("clusters", "clean", "mine", "--yes")
    for host in lab.nodes:
        assert remains(host) == []
    assert desk.status("b")["state"] == "unknown"


def token_places(lab: Lab) -> list[str]:
    """Where the launch's secret can be seen by others: in arguments, or in files that are not the user's alone."""
    tokens = set()
    for host in lab.nodes:
        for process in host.processes():
            variables = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
            tokens |= {
                entry.partition(b"=")[2] for entry in variables if entry.startswith(b"MUSTER_LAUNCH_TOKEN=")
            }
    assert tokens
    seen = []
    for host in lab.hosts.values():
        for process in host.processes():
            if any(token.decode() in word for token in tokens for word in process.command):
                seen.append(f"{host.name}: {process.command}")
        for path in host.path(Researcher.home).rglob("*"):
            if path.is_file() and any(token in path.read_bytes() for token in tokens):
                seen.append(f"{host.name}: {path}")
    return seen


def test_hosts_that_are_not_fit_are_named(lab: Lab, desk: Desk) -> None:
    down, wrong_key = lab.host("node2"), lab.host("node3")
    desk.hosts("node1", "node2", "node3")
    down.crash()
    desk.user.write(wrong_key, ".ssh/authorized_keys", "")
    said = desk.type("submit", "exp.toml", "--on", "mine", "--name", "a", code=1)
    assert "1 of 3 hosts are ready" in said
    assert "node2: ssh: connect to host node2" in said
    assert "researcher@node3: Permission denied" in said
    assert "--min-nodes 1" in said
    assert not (desk.runs / "a").exists()
    assert remains(lab.host("node1")) == [".muster"]


def test_another_python_and_a_full_disk_are_named(lab: Lab, desk: Desk) -> None:
    other, full = lab.host("node2"), lab.host("node3")
    own = sys.version.split()[0]
    for host, version in ((lab.host("node1"), own), (other, "3.9.1"), (full, own)):
        program = f"#!/bin/sh\n{sys.executable} \"$@\" | sed 's/{own}/{version}/'\n"
        desk.user.write(host, "env/bin/python", program).chmod(0o755)
    folder = Researcher.home / ".muster"
    full.run(["sh", "-c", f"mkdir {folder} && mount -t tmpfs -o size=8m,mode=777 none {folder}"])
    desk.hosts("node1", "node2", "node3", more='environment = "~/env"')
    said = desk.type("submit", "exp.toml", "--on", "mine", code=1)
    assert "node2: /tmp/home/researcher/env/bin/python is Python 3.9.1, expected 3.11 as here" in said
    assert "node3: /tmp/home/researcher/.muster/mine: only 8 MiB are free on its disk" in said
    full.run(["umount", str(folder)])


@pytest.mark.long
def test_a_run_goes_on_without_hosts_that_are_not_fit(lab: Lab, desk: Desk) -> None:
    desk.hosts("node2", "node1", "node3", more=f'environment = "{sys.prefix}"\nmin_nodes = 1')
    lab.host("node2").crash()
    desk.user.write(lab.host("node3"), ".ssh/authorized_keys", "")
    said = desk.type("submit", "exp.toml", "--on", "mine", "--name", "a")
    assert "without node2" in said and "without node3" in said
    assert "finished" in desk.type("attach", "a")


@pytest.mark.long
def test_hosts_with_one_home_have_one_copy(lab: Lab, desk: Desk) -> None:
    base = lab.shared / "home-of-all"
    base.mkdir()
    shutil.chown(base, 1500, 1500)
    desk.hosts("node1", "node2", "node3", more=f'folder = "{base}/m"\nenvironment = "{sys.prefix}"')
    desk.type("submit", "exp.toml", "--on", "mine", "--name", "a")
    assert "finished" in desk.type("attach", "a")
    assert "hosts 3, cpus 6" in desk.type("logs", "a")
    assert sorted(path.name for path in (base / "m" / "members").iterdir()) == ["node2", "node3"]
    desk.type("submit", "a", "--resume")
    assert "finished" in desk.type("attach", "a")
    desk.type("clusters", "clean", "mine", "--yes")
    assert list(base.iterdir()) == []


@pytest.mark.long
def test_an_environment_is_made_of_wheels_from_here(desk: Desk, tmp_path: Path) -> None:
    """The lab's laptop reaches no package index either: its cache is filled from outside, as by an earlier run."""
    from muster.jobs.places.requirements import required

    requirements = required(set(), None, ["cowsay==6.1"])
    (tmp_path / "requirements.txt").write_text(requirements.text)
    wheels = tmp_path / "wheels"
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(wheels)]
    subprocess.run([*command, "--requirement", str(tmp_path / "requirements.txt")], check=True)
    (wheels / "complete").touch()
    cache = desk.user.laptop.path(Researcher.home / ".cache/muster/wheels")
    shutil.copytree(wheels, cache / f"{requirements.id}-linux-x86_64")
    desk.user.own(desk.user.laptop.path(Researcher.home))
    more = f'wheels = true\nrequirements = ["cowsay==6.1"]\npython = "{sys.base_prefix}/bin/python3"'
    desk.hosts("node1", "node2", more=more)
    said = desk.type("submit", "exp.toml", "--on", "mine", "--name", "a")
    assert "node1: installing the requirements" in said
    assert "finished" in desk.type("attach", "a")
    command = [
        "submit",
        "--on",
        "mine",
        "--name",
        "c",
        "--",
        "python",
        "-c",
        "import cowsay; print(cowsay.__file__)",
    ]
    assert "installing" not in desk.type(*command)
    desk.await_state("finished", name="c")
    assert "/.muster/mine/environments/" in desk.type("logs", "c")


def test_a_laptop_submits_to_a_sites_slurm_with_one_login(lab: Lab, sshd: Sshd, slurm: Slurm) -> None:
    laptop = lab.host("node3")
    desk = Desk(Researcher(lab, sshd, laptop, [lab.login]))
    for node in lab.nodes[:2]:
        desk.user.settle(node)
    base = lab.shared / "scratch"
    base.mkdir()
    shutil.chown(base, 1500, 1500)
    laptop.run(["mount", "-t", "tmpfs", "none", str(lab.shared)], cwd=Path("/"))
    log = lab.layout.service("ssh") / "sshd-login.log"
    logins_before = log.read_text().count("Accepted")
    try:
        desk.clusters(f'[clusters.site]\nscheduler = "slurm"\nfolder = "{base}/m"\nenvironment = "{sys.prefix}"\n')
        site = ("--on", "site", "--remote", "login", "--wall-time", "5m", "--cpus", "2")
        assert "expected at most" in desk.type("submit", "exp.toml", *site, "--nodes", "99", code=2)
        desk.type("submit", "exp.toml", *site, "--nodes", "2", "--name", "a")
        assert "finished" in desk.type("attach", "a")
        assert "edition 1" in desk.type("logs", "a")
        desk.type("fetch", "a")
        assert (desk.runs / "a" / "checkpoints" / "00000004").is_dir()
        desk.type("submit", "exp.toml", *site, "--name", "b")
        desk.type("cancel", "b")
        assert desk.status("b")["state"] == "cancelled"
        assert log.read_text().count("Accepted") - logins_before == 1
        mine = [p for p in lab.login.processes() if "muster" in " ".join(p.command)]
        assert mine == []
    finally:
        laptop.run(["umount", str(lab.shared)], cwd=Path("/"))
