"""`muster launch` on real hosts: under MPI, under Slurm, and when things go wrong."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.lab.cluster import Lab
from tests.lab.host import Host
from tests.lab.mpi import Mpi
from tests.lab.slurm import Slurm

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

MUSTER = str(Path(sys.executable).with_name("muster"))
TELL = "tell.py"
TELL_CODE = """
import json, os, sys, ray
ray.init(logging_level="error")
nodes = [n for n in ray.nodes() if n["Alive"]]
found = {
    "hosts": sorted(n["NodeManagerHostname"] for n in nodes),
    "cpus": {n["NodeManagerHostname"]: n["Resources"].get("CPU") for n in nodes},
    "address": os.environ["RAY_ADDRESS"],
    "argument": sys.argv[2],
    "mpi": [name for name in os.environ if name.startswith(("OMPI_", "PMI_", "PMIX_"))],
}
with open(sys.argv[1], "a") as file:
    file.write(json.dumps(found) + "\\n")
sys.exit(int(sys.argv[3]))
"""


def tell(shared: Path, code: int = 0) -> list[str]:
    """Return a command that writes what it sees of Ray and ends with a code."""
    (shared / TELL).write_text(TELL_CODE)
    return [sys.executable, str(shared / TELL), str(shared / "told"), "{ray_address}", str(code)]


def told(shared: Path) -> dict[str, Any]:
    """Return what the command wrote; it must have run exactly once."""
    lines = (shared / "told").read_text().splitlines()
    assert len(lines) == 1
    found: dict[str, Any] = json.loads(lines[0])
    return found


def leftovers(host: Host) -> list[str]:
    """Return what is left of a launch on a host: processes and temporary folders."""
    names = ("ray", "gcs_server", "raylet", "keeper.py", "muster launch", "ray::")
    left = [p.command for p in host.processes() if any(name in p.command for name in names)]
    return left + [str(path) for path in host.path("/tmp").glob("mu-*")]


def assert_nothing_is_left(hosts: list[Host], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while any(leftovers(host) for host in hosts):
        assert time.monotonic() < deadline, {host.name: leftovers(host) for host in hosts}
        time.sleep(0.2)


def launch(shared: Path, *flags: str) -> list[str]:
    return [MUSTER, "launch", "--runs-dir", str(shared / "runs"), *flags, "--"]


def test_mpi_over_three_hosts_with_two_ranks_each(lab: Lab, mpi: Mpi, shared: Path) -> None:
    command = [*launch(shared), *tell(shared, code=5)]
    done = lab.nodes[0].run(mpi.command(lab.nodes, 2, command), env=mpi.env, check=False, limit_s=120)
    assert done.returncode == 5, done.stdout + done.stderr
    found = told(shared)
    assert found["hosts"] == ["node1", "node2", "node3"]
    assert found["argument"] == found["address"]
    assert not found["address"].startswith("127.")
    assert found["mpi"] == []
    assert_nothing_is_left(lab.nodes)


def test_slurm_from_a_job_script(lab: Lab, slurm: Slurm, shared: Path) -> None:
    line = " ".join(["srun", *launch(shared), *tell(shared, code=3)])
    job = slurm.submit(f"#!/bin/sh\n{line}\n", "--nodes=3", "--ntasks-per-node=1", f"--output={shared}/out")
    state = slurm.wait_for_state(job, "COMPLETED", "FAILED")
    output = (shared / "out").read_text()
    assert state == "FAILED", output
    assert told(shared)["hosts"] == ["node1", "node2", "node3"], output
    assert_nothing_is_left(lab.nodes)


def test_slurm_from_the_job_script_s_own_shell(lab: Lab, slurm: Slurm, shared: Path) -> None:
    line = " ".join([*launch(shared), *tell(shared)])
    job = slurm.submit(f"#!/bin/sh\n{line}\n", "--nodes=3", f"--output={shared}/out")
    state = slurm.wait_for_state(job, "COMPLETED", "FAILED")
    assert state == "COMPLETED", (shared / "out").read_text()
    assert told(shared)["hosts"] == ["node1", "node2", "node3"]


def test_a_smaller_step_and_a_share_of_the_cpus(lab: Lab, slurm: Slurm, shared: Path) -> None:
    line = " ".join(["srun -N2 -n2 --cpus-per-task=1", *launch(shared), *tell(shared)])
    job = slurm.submit(
        f"#!/bin/sh\n{line}\n", "--nodes=3", "--ntasks-per-node=1", "--cpus-per-task=1", f"--output={shared}/out"
    )
    state = slurm.wait_for_state(job, "COMPLETED", "FAILED")
    assert state == "COMPLETED", (shared / "out").read_text()
    assert set(told(shared)["cpus"].values()) == {1.0}
    assert len(told(shared)["hosts"]) == 2
