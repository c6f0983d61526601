"""The doctor on several hosts: all well under Slurm and MPI, and faults that only show between hosts."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .cluster import Lab
from .layout import REPOSITORY
from .mpi import Mpi
from .slurm import Slurm

pytestmark = pytest.mark.lab

DOCTOR = [sys.executable, "-m", "muster", "doctor", "--json"]
NODES = ["node1", "node2", "node3"]


def verdicts(table: dict[str, Any], check: str) -> dict[str, str]:
    """Return each host's verdict on one check."""
    return {
        host: finding["verdict"]
        for finding in table["findings"]
        if finding["check"] == check
        for host in finding["hosts"]
    }


def examine_by_hand(lab: Lab, folder: Path, *, hosts: list[str]) -> dict[str, Any]:
    """Start a rank of three on each of the hosts, without any network, and return what rank 0 found."""
    launch = {"MUSTER_HOSTS": ",".join(NODES), "MUSTER_NUM_RANKS": "3", "MUSTER_LAUNCH_ID": "by-hand"}
    processes = {
        host: lab.host(host).popen(
            [*DOCTOR, "--timeout", "8s"],
            env=launch | {"MUSTER_RANK": str(NODES.index(host))},
            cwd=folder,
            stdout=subprocess.PIPE,
        )
        for host in hosts
    }
    outputs = {host: process.communicate(timeout=60)[0] for host, process in processes.items()}
    assert [host for host, output in outputs.items() if output] == ["node1"], "only rank 0 prints"
    table: dict[str, Any] = json.loads(outputs["node1"])
    assert processes["node1"].returncode == table["exit_code"]
    return table


def test_all_is_well_under_srun(lab: Lab, slurm: Slurm, shared: Path) -> None:
    command = ["srun", "--nodes=3", "--ntasks-per-node=1", f"--chdir={shared}", *DOCTOR, "CartPole-v1"]
    table = json.loads(lab.login.run(command, cwd=shared).stdout)
    assert sorted(table["hosts"]) == NODES
    assert table["problems"] == 0, table
    for check in ("shared folder", "reachability", "simulator", "versions", "ports"):
        assert verdicts(table, check) == dict.fromkeys(NODES, "ok"), check
    assert verdicts(table, "clock") == {"node2": "ok", "node3": "ok"}
    assert not (shared / "runs" / "examinations").exists()


def test_a_simulator_that_lies_on_one_host_only(lab: Lab, slurm: Slurm, shared: Path) -> None:
    (shared / "exp.toml").write_text('[env]\nid = "/tmp/pump.py:make"\n')
    pump = "import gymnasium\n\ndef make():\n    return gymnasium.make('CartPole-v1')\n"
    lab.host("node1").path("/tmp/pump.py").write_text(pump)
    script = f"#!/bin/sh\ncd {shared}\n{' '.join(DOCTOR)} exp.toml\n"
    job = slurm.submit(script, "--nodes=3", f"--output={shared}/out", f"--error={shared}/err")
    assert slurm.wait_for_state(job) == "FAILED"
    table = json.loads((shared / "out").read_text().splitlines()[-1])
    assert verdicts(table, "simulator") == {"node1": "ok", "node2": "problem", "node3": "problem"}
    (missing,) = (f for f in table["findings"] if f["check"] == "simulator" and f["verdict"] == "problem")
    assert "no such file: /tmp/pump.py" in missing["message"]


def test_all_is_well_under_mpirun(lab: Lab, mpi: Mpi, shared: Path) -> None:
    script = f"cd {shared} && PYTHONPATH={REPOSITORY / 'src'} exec {' '.join(DOCTOR)}"
    table = json.loads(mpi.run(lab.nodes, 2, ["sh", "-c", script]).stdout)
    assert sorted(table["hosts"]) == NODES
    assert table["problems"] == 0, table


def test_a_host_that_is_cut_off(lab: Lab, shared: Path) -> None:
    lab.host("node2").cut()
    table = examine_by_hand(lab, shared, hosts=NODES)
    assert verdicts(table, "reachability") == dict.fromkeys(NODES, "problem")
    told = {f["hosts"][0]: f["message"] for f in table["findings"] if f["check"] == "reachability"}
    assert "cannot connect to node2" in told["node1"]
    assert "node3" not in told["node1"]


@pytest.mark.long
def test_a_host_that_never_comes(lab: Lab, shared: Path) -> None:
    lab.host("node3").crash()
    table = examine_by_hand(lab, shared, hosts=["node1", "node2"])
    assert verdicts(table, "presence") == {"node3": "problem"}
    assert verdicts(table, "reachability") == {"node1": "ok", "node2": "ok"}
