"""The fake schedulers over real hosts: ranks by ssh, signals that reach them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.fakes.core import HostEntry
from tests.fakes.jobs import RUNNING
from tests.fakes.site import FakeSite
from tests.lab.cluster import Lab
from tests.lab.sshd import Sshd

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

NODES = ("node1", "node2", "node3")
HOSTS = tuple(HostEntry(name, cpus=4) for name in NODES)


def submit(lab: Lab, site: FakeSite, folder: Path, command: str) -> None:
    """Submit on the login host, in a folder that all hosts share."""
    lab.login.run(["bash", "-c", command], env={**site.environment, "HOME": str(folder)}, cwd=folder)


@pytest.mark.parametrize(
    ("scheduler", "command", "output"),
    [
        ("pbs", "qsub -j oe -o out -l select=3:ncpus=4 -l place=scatter {script}", "mpiexec -n 3 --ppn 1 {rank}"),
        ("cobalt", "qsub -n 3 -t 5 -o out -e err {script}", "aprun -n 3 -N 1 {rank}"),
        ("lsf", "bsub -n 12 -R 'span[ptile=4]' -o out <{script}", "jsrun -n 3 -r 1 {rank}"),
        ("flux", "flux submit -N3 --exclusive --output=out sh {script}", "{rank}"),
    ],
)
def test_ranks_run_on_all_hosts(
    lab: Lab, sshd: Sshd, shared: Path, scheduler: str, command: str, output: str
) -> None:
    site = FakeSite(shared / "site", scheduler, HOSTS, service_host="login" if scheduler == "cobalt" else None)
    script = shared / "script.sh"
    script.write_text(f"#!/bin/sh\n{output.format(rank='sh -c ' + shlex.quote('echo rank on $(hostname)'))}\n")
    script.chmod(0o755)
    submit(lab, site, shared, command.format(script=script))
    site.wait(1)
    lines = [line for line in (shared / "out").read_text().splitlines() if line.startswith("rank on ")]
    assert sorted(lines) == [f"rank on {name}" for name in NODES], site.logs()


def test_a_cancel_reaches_the_tasks_on_every_host(lab: Lab, sshd: Sshd, shared: Path) -> None:
    site = FakeSite(shared / "site", "flux", HOSTS)
    script = shared / "script.sh"
    script.write_text(
        f"trap 'touch {shared}/$(hostname); exit 9' TERM\ntouch {shared}/up-$(hostname)\nsleep 60 & wait\n"
    )
    submit(lab, site, shared, f"flux submit -N3 bash {script}")
    site.wait(1, RUNNING)
    lab.login.run(["bash", "-c", f"until [ $(ls {shared}/up-* | wc -l) = 3 ]; do sleep 0.1; done"])
    submit(lab, site, shared, "flux cancel $(flux jobs -no '{id.dec}')")
    [job] = site.wait(1)
    assert (job.reason, [(shared / name).exists() for name in NODES]) == ("cancelled", [True] * 3), site.logs()
