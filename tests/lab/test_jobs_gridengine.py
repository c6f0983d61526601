"""`muster submit` on a real Grid Engine: states, cancel, arrays, and chains past the wall time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import timeless_metrics, wait_until
from tests.lab.cluster import Lab
from tests.lab.gridengine import GridEngine
from tests.lab.test_jobs import Desk
from tests.lab.test_launch import assert_nothing_is_left

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(600)]

CLUSTER = '[clusters.engine]\nscheduler = "sge"\nparallel_environment = "hosts"\nnodes = 2\ncpus = 4\n'


@pytest.fixture
def desk(lab: Lab, gridengine: GridEngine, shared: Path) -> Desk:
    desk = Desk(lab, shared, "root")  # qrsh needs a user with a login shell
    (shared / "muster.toml").write_text(CLUSTER)
    return desk


def submit(desk: Desk, *flags: str) -> str:
    done = json.loads(desk.type("submit", "exp.toml", "--on", "engine", "--name", "a", "--json", *flags))
    return str(done["jobs"][0])


def queue(lab: Lab) -> str:
    return lab.login.run(["qstat", "-u", "*"]).stdout


def test_a_run_goes_from_the_queue_to_its_end(lab: Lab, desk: Desk) -> None:
    desk.experiment(iterations=20)
    job = submit(desk, "--wall-time", "5m", "--directive=-h")
    assert (desk.status()["state"], desk.status()["job_id"]) == ("queued", job)
    lab.login.run(["qrls", job])
    desk.require_state("running", desk.wait_for("running"))
    desk.require_state("finished", desk.wait_for("finished"))
    assert "finished: 20 iterations done" in desk.type("logs", "a")
    wait_until(lambda: not queue(lab), "the queue to be empty", 30)
    assert_nothing_is_left(lab.nodes)


def test_a_cancelled_run_has_saved_and_nothing_is_left(lab: Lab, desk: Desk) -> None:
    desk.experiment(iterations=10_000)
    submit(desk, "--wall-time", "5m")
    desk.require_state("running", desk.wait_for("running"))
    desk.type("cancel", "a")
    assert desk.status()["state"] == "cancelled"
    assert (desk.run() / "checkpoints" / "latest" / "policy.npz").is_file()
    wait_until(lambda: not queue(lab), "the queue to be empty", 30)
    assert_nothing_is_left(lab.nodes)


@pytest.mark.parametrize("way", ["dependency", "requeue", "ahead"])
def test_a_chain_past_the_wall_time_learns_what_one_run_does(lab: Lab, desk: Desk, way: str) -> None:
    desk.experiment(iterations=50, delay=0.001)
    submit(desk, "--wall-time", "60s", "--chain", way, "--max-jobs", "5")
    ended = desk.wait_for("finished", seconds=300)
    desk.require_state("finished", ended)
    assert ended["link"] >= 2
    desk.experiment(iterations=50)
    desk.type("train", "exp.toml", "--name", "whole", "--workers", "0", "--quiet")
    assert timeless_metrics(desk.run()) == timeless_metrics(desk.run("whole"))


def test_seeds_are_an_array(lab: Lab, desk: Desk) -> None:
    desk.experiment(iterations=3)
    submit(desk, "--wall-time", "5m", "--seeds", "2", "--nodes", "1")
    for seed in range(2):
        desk.require_state("finished", desk.wait_for("finished", name=f"a/seed-{seed}", seconds=120))
