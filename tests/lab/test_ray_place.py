"""Runs on a Ray that exists: sent from a laptop through the job server, on hosts that share nothing."""

import json
import os
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cluster import Lab
from .host import Host
from .layout import RESEARCHER, RESEARCHER_HOME
from .ray_cluster import TOKEN, RayCluster, settle, write

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

PROJECT = RESEARCHER_HOME / "project"
RUNS = RESEARCHER_HOME / ".muster" / "ray" / "runs"
SIMULATOR = """\
import pathlib
import time

import gymnasium
import numpy
from limits import LONGEST


class Slow(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        pathlib.Path("/tmp/simulated").touch()
        self._steps = 0
        return numpy.zeros(2, numpy.float32), {}

    def step(self, action):
        self._steps += 1
        time.sleep(0.001)
        seen = numpy.full(2, self._steps / LONGEST, numpy.float32)
        return seen, float(action), self._steps == LONGEST, False, {}
"""
EXPERIMENT = """\
[env]
id = "simulators/slow.py:Slow"
[algorithm]
name = "ppo"
train_batch_size = 200
[resources]
workers = 2
env_groups = 2
envs_per_group = 2
[checkpoint]
every = 5
"""


@pytest.fixture
def ray(lab: Lab) -> Iterator[RayCluster]:
    """A Ray whose head is `login`, with a CPU on each of `node2` and `node3`; `node1` is the laptop."""
    cluster = RayCluster(lab.login, [lab.host("node2"), lab.host("node3")], num_cpus=1)
    cluster.start()
    laptop = lab.host("node1")
    settle(laptop)
    write(laptop, TOKEN, cluster.token)
    write(laptop, PROJECT / "simulators" / "slow.py", SIMULATOR)
    write(laptop, PROJECT / "simulators" / "limits.py", "LONGEST = 20\n")
    write(laptop, PROJECT / "exp.toml", EXPERIMENT)
    yield cluster


@pytest.fixture
def laptop(lab: Lab) -> Host:
    return lab.host("node1")


def muster(laptop: Host, *arguments: str, check: bool = True, limit_s: float = 100, **variables: str) -> str:
    """Type a command on the laptop; return what it printed, on either stream."""
    done = laptop.run(
        ["muster", *arguments], user=RESEARCHER, cwd=PROJECT, env=variables, check=check, limit_s=limit_s
    )
    assert check or done.returncode == 1, done
    return done.stdout + done.stderr


def state(laptop: Host, run: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(muster(laptop, "status", run, "--json"))
    return found


def wait_for(laptop: Host, run: str, wanted: str, *, steps: int = 0) -> dict[str, object]:
    deadline = time.monotonic() + 60
    while True:
        found = state(laptop, run)
        if found["state"] == wanted and int(str(found["steps"])) >= steps:
            return found
        assert found["state"] not in ("failed", "lost") and time.monotonic() < deadline, found


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]


@pytest.mark.long
def test_a_run_on_a_ray(lab: Lab, ray: RayCluster, laptop: Host) -> None:
    on = ("--on", f"ray:{ray.address}")
    began = time.monotonic()
    refused = muster(laptop, "submit", "exp.toml", *on, check=False, RAY_AUTH_TOKEN="0" * 32)
    assert "wants a token" in refused and ray.address in refused
    laptop.path(TOKEN).rename(laptop.path(TOKEN).with_name("aside"))
    assert "wants a token" in muster(laptop, "submit", "exp.toml", *on, check=False)
    laptop.path(TOKEN).with_name("aside").rename(laptop.path(TOKEN))
    unreachable = muster(laptop, "submit", "exp.toml", "--on", f"ray:{ray.head.address}:8266", check=False)
    assert "no Ray answers" in unreachable
    assert time.monotonic() - began < 20
    assert not laptop.path(PROJECT / "runs").exists()

    assert "submitted to ray" in muster(laptop, "submit", "exp.toml", "--name", "exp", *on)
    running = wait_for(laptop, "exp", "running", steps=200)
    assert (running["cluster"], running["place"]) == ("ray", ray.address)
    assert "iteration" in muster(laptop, "logs", "exp")
    for node in ray.nodes:
        assert node.path("/tmp/simulated").exists(), "a node without the laptop's simulator has run it"
        assert not node.path(RESEARCHER_HOME / ".muster").exists()

    assert "running" in muster(laptop, "fetch", "exp")
    here = laptop.path(PROJECT / "runs" / "exp")
    assert (here / "checkpoints" / "latest").is_dir()
    assert (here / "code" / "simulators" / "slow.py").read_text() == SIMULATOR

    assert "exp: cancelled" in muster(laptop, "cancel", "exp")
    assert state(laptop, "exp")["state"] == "cancelled"
    muster(laptop, "fetch", "exp")
    there = ray.head.path(RUNS / "exp")
    newest = (there / "checkpoints" / "latest").readlink()
    assert (here / "checkpoints" / "latest").readlink() == newest
    assert files(here / "checkpoints" / newest)
    for folder in (laptop.path(PROJECT), there):
        assert not [path for path in files(folder) if ray.token.encode() in path.read_bytes()]


@pytest.mark.long
def test_a_lost_node_and_a_resumed_run(lab: Lab, ray: RayCluster, laptop: Host) -> None:
    muster(laptop, "submit", "exp.toml", "--name", "exp", "--on", f"ray:{ray.address}")
    wait_for(laptop, "exp", "running", steps=200)
    ray.nodes[1].crash()
    deadline = time.monotonic() + 150
    while '"worker lost"' not in ray.head.path(RUNS / "exp" / "events.jsonl").read_text():
        assert time.monotonic() < deadline, muster(laptop, "logs", "exp")
        time.sleep(1)
    wait_for(laptop, "exp", "running", steps=int(str(state(laptop, "exp")["steps"])) + 200)
    muster(laptop, "cancel", "exp")
    saved = int(str(state(laptop, "exp")["steps"]))
    ray.nodes[1].boot()
    settle(ray.nodes[1])
    write(ray.nodes[1], TOKEN, ray.token)
    muster(laptop, "submit", "exp", "--resume")
    ray.add(ray.nodes[1])
    wait_for(laptop, "exp", "running", steps=saved + 200)
    output = muster(laptop, "logs", "exp")
    assert "waiting at most" in output and "resumed at iteration" in output


@pytest.mark.long
def test_a_large_run_is_fetched_in_parts_and_once(lab: Lab, ray: RayCluster, laptop: Host) -> None:
    arguments = ("--set", "stop.iterations=2")
    muster(laptop, "submit", "exp.toml", "--name", "exp", "--on", f"ray:{ray.address}", *arguments)
    wait_for(laptop, "exp", "finished")
    large = os.urandom(60_000_000)
    ray.head.path(RUNS / "exp" / "large.bin").write_bytes(large)
    muster(laptop, "fetch", "exp")
    here = laptop.path(PROJECT / "runs" / "exp" / "large.bin")
    assert here.read_bytes() == large
    inode = here.stat().st_ino
    muster(laptop, "fetch", "exp")
    assert here.stat().st_ino == inode
    assert not list(ray.head.path(RUNS).glob(".fetch-*"))


@pytest.mark.long
def test_a_requirement_that_the_ray_lacks_is_installed(lab: Lab, ray: RayCluster, laptop: Host) -> None:
    wheel = Path("/tmp/longest-1.0-py3-none-any.whl")
    for host in (ray.head, *ray.nodes):
        with zipfile.ZipFile(host.path(wheel), "w") as packed:
            packed.writestr("limits.py", "LONGEST = 20\n")
            packed.writestr(
                "longest-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: longest\nVersion: 1.0\n"
            )
            packed.writestr("longest-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            packed.writestr("longest-1.0.dist-info/RECORD", "")
    laptop.path(PROJECT / "simulators" / "limits.py").unlink()
    write(laptop, PROJECT / "requirements.txt", f"longest @ file://{wheel}\n")
    arguments = ("--set", "stop.iterations=3")
    muster(laptop, "submit", "exp.toml", "--name", "exp", "--on", f"ray:{ray.address}", *arguments, limit_s=200)
    wait_for(laptop, "exp", "finished", steps=600)


@pytest.mark.long
def test_what_cannot_be_installed_is_told(lab: Lab, ray: RayCluster, laptop: Host) -> None:
    write(laptop, PROJECT / "requirements.txt", "# ours\nno-such-package-of-ours==1.0\n")
    output = muster(laptop, "submit", "exp.toml", "--name", "exp", "--on", f"ray:{ray.address}", check=False)
    assert "did not begin" in output and "no-such-package-of-ours" in output
    assert not laptop.path(PROJECT / "runs" / "exp").exists()
