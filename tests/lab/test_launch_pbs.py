"""`muster launch` in a PBS job on real hosts, with commands of PBS that behave as those of OpenPBS do."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from muster.clusters.allocation.host_lists import short_name
from tests.clusters.fake_pbs import make_job, running_job
from tests.lab.cluster import Lab
from tests.lab.mpi import Mpi
from tests.lab.sshd import Sshd
from tests.lab.test_launch import MUSTER, assert_nothing_is_left, launch, tell, told, wait_for_file
from tests.lab.test_launch_ways import HOSTS

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

LINES = [host for host in HOSTS for _ in range(2)]
CPUS = {"node1": 1, "node2": 2, "node3": 1}
BY_SSH = ["ssh", "-n", '"$host"']
"""Ends with its caller's connection, but passes no signal on: as pbs_tmrsh does."""


def job(shared: Path, lines: Sequence[str] = LINES) -> dict[str, str]:
    """Return the variables of a job on three hosts."""
    return make_job(shared, lines, running_job(CPUS, wall_time="01:00:00"), way=BY_SSH)


def test_pbs_tmrsh_starts_a_rank_on_each_host_with_its_share(lab: Lab, sshd: Sshd, shared: Path) -> None:
    done = lab.nodes[0].run(
        [*launch(shared), *tell(shared, code=75)], env=job(shared), cwd=shared, check=False, limit_s=90
    )
    assert done.returncode == 75, done.stderr
    assert told(shared)["cpus"] == {host: float(cpus) for host, cpus in CPUS.items()}
    tasks = [line.split()[0] for line in (shared / "tasks").read_text().splitlines()]
    assert tasks == ["node2", "node3"]
    assert (shared / "asked").read_text().count("asked") == 2, "by the one who starts the ranks, and by the head"
    assert_nothing_is_left(lab.nodes)
    assert not list((shared / "runs" / "launches").glob("*/meeting"))


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_ranks_of_pbs_tmrsh_end_with_the_one_who_started_them(
    number: signal.Signals, lab: Lab, sshd: Sshd, shared: Path
) -> None:
    script = shared / "wait.sh"
    script.write_text(f"trap 'touch {shared}/saved; exit 9' TERM\ntouch {shared}/running\nsleep 300 & wait\n")
    log = shared / "log"
    process = lab.nodes[0].popen([*launch(shared), "sh", str(script)], env=job(shared), stderr=log.open("w"))
    wait_for_file(shared / "running", log)
    outer = next(p for p in lab.nodes[0].processes() if MUSTER in p.command)
    subprocess.run(["kill", f"-{int(number)}", str(outer.pid)], check=True)
    assert process.wait(timeout=40) == (9 if number == signal.SIGTERM else -signal.SIGKILL), log.read_text()
    assert_nothing_is_left(lab.nodes, seconds=10)
    assert (shared / "saved").exists()


@pytest.mark.long
def test_open_mpi_over_the_node_file_without_pbs_variables(lab: Lab, open_mpi: Mpi, shared: Path) -> None:
    command = open_mpi.command(lab.nodes, 1, [*launch(shared), *tell(shared, code=5)])
    bound = [*command[:1], "--bind-to", "none", *command[1:]]
    done = lab.nodes[0].run(bound, env={**open_mpi.env, **job(shared)}, check=False, limit_s=120)
    assert done.returncode == 5, done.stdout + done.stderr
    cpus = {short_name(host): count for host, count in told(shared)["cpus"].items()}
    assert cpus == {host: float(count) for host, count in CPUS.items()}
    assert_nothing_is_left(lab.nodes)
