"""`muster dashboard` over real ssh: who gets in, what it leads to, and that nothing is left of it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.commands import wait_until
from tests.lab.cluster import Lab
from tests.lab.host import Host
from tests.lab.researcher import Researcher
from tests.lab.slurm import Slurm
from tests.lab.sshd import Sshd

pytestmark = [pytest.mark.lab, pytest.mark.timeout(200)]

MUSTER = str(Path(sys.executable).with_name("muster"))
EXPERIMENT = """
[env]
id = "CartPole-v1"

[resources]
workers = 1

[stop]
iterations = 100000

[clusters.mine]
scheduler = "ssh"
hosts = ["node1"]
cpus = 2
environment = "{prefix}"
dashboard = true

[clusters.big]
scheduler = "slurm"
remote = "login"
nodes = 1
cpus = 2
wall_time = "10m"
environment = "{prefix}"
"""
PROTECTED = "/api/version"


class Desk:
    """Where commands are typed: a host, a user, and the folder of a project."""

    def __init__(self, host: Host, folder: Path, user: str = "root") -> None:
        self.host = host
        self.folder = folder
        self.user = user

    def type(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.host.run([MUSTER, *arguments], user=self.user, cwd=self.folder, check=check, limit_s=120)

    def where(self, run: str) -> dict[str, Any]:
        """Wait until a run's dashboard is up; return what `--json` says of it."""
        deadline = time.monotonic() + 90
        while True:
            found: dict[str, Any] = json.loads(self.type("dashboard", run, "--json").stdout)
            if found["token"]:
                return found
            assert time.monotonic() < deadline, (found, self.type("logs", run, check=False).stdout)

    @contextmanager
    def dashboard(self, run: str, log: Path, *flags: str) -> Iterator[subprocess.Popen[str]]:
        """Open a run's dashboard, and wait until it is open or has failed."""
        with log.open("w") as output:
            command = [MUSTER, "dashboard", run, "--no-browser", *flags]
            process = self.host.popen(command, user=self.user, cwd=self.folder, stdout=output, stderr=output)
        wait_until(lambda: "Ctrl-C" in log.read_text() or process.poll() is not None, "the dashboard")
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def interrupt(self, process: subprocess.Popen[str]) -> int:
        """Type Ctrl-C; return the command's exit code."""
        process.send_signal(signal.SIGINT)
        return process.wait(timeout=20)

    def get(self, address: str, token: str | None = None) -> str:
        """Ask for a page; return the status of the answer."""
        header = ["--header", f"Authorization: Bearer {token}"] if token else []
        form = ["--silent", "--max-time", "20", "--output", "/dev/null", "--write-out", "%{http_code}"]
        return self.host.run(["curl", *form, *header, address], check=False).stdout

    def listening(self) -> set[str]:
        """Return the addresses that anything on the host listens at."""
        lines = self.host.run(["ss", "-H", "-ltn"]).stdout.splitlines()
        return {line.split()[3] for line in lines}


def address_of(what: str, log: Path) -> str:
    found = re.search(rf"{what}: (http://127\.0\.0\.1:\d+)", log.read_text())
    assert found, log.read_text()
    return found[1]


def commands_of(host: Host) -> list[str]:
    return [" ".join(process.command) for process in host.processes()]


def assert_only_the_token_lets_in(desk: Desk, address: str, token: str) -> None:
    assert desk.get(f"{address}{PROTECTED}") == "401"
    assert desk.get(f"{address}{PROTECTED}", "0" * 64) == "403"
    assert desk.get(f"{address}{PROTECTED}", token) == "200"


@pytest.mark.long
def test_a_run_over_ssh_is_looked_at_from_the_laptop(lab: Lab, sshd: Sshd, tmp_path: Path) -> None:
    researcher = Researcher(lab, sshd, lab.login, lab.nodes[:1])
    researcher.write(lab.login, "project/exp.toml", EXPERIMENT.format(prefix=sys.prefix))
    desk, node, log = Desk(lab.login, researcher.project, researcher.name), lab.nodes[0], tmp_path / "log"
    before = desk.listening()
    desk.type("submit", "exp.toml", "--on", "mine", "--name", "a")
    token = desk.where("a")["token"]
    [record] = node.path(researcher.home).rglob("launches/*/dashboard/where.json")
    assert oct(record.stat().st_mode)[-3:] == "600"
    with desk.dashboard("a", log) as process:
        assert_only_the_token_lets_in(desk, address_of("Ray's dashboard", log), token)
        curves = f"{address_of('TensorBoard', log)}/data/runs"
        wait_until(lambda: '"a"' in lab.login.run(["curl", "--silent", curves]).stdout, "curves")
        assert token not in log.read_text()
        commands = [*commands_of(lab.login), *commands_of(node)]
        assert not [command for command in commands if token in command]
        assert desk.interrupt(process) == 0
    assert "closed; the run continues" in log.read_text()
    assert desk.listening() == before
    assert not [command for command in commands_of(lab.login) if "tensorboard" in command]
    wait_until(lambda: not [command for command in commands_of(node) if " relay " in command], "the relay's end")
    with desk.dashboard("a", log, "--live") as process:
        assert desk.get(address_of("live page", log)) == "401"
        rows = lab.login.path(researcher.project) / "runs/a/metrics.csv"
        wait_until(rows.exists, "the metrics of the run here")
        assert desk.interrupt(process) == 0
    desk.type("fetch", "a")
    assert not list(lab.login.path(researcher.project).rglob("where.json"))
    desk.type("cancel", "a")
    assert not record.exists()
    assert "not up: the run is cancelled" in desk.type("dashboard", "a", "--json").stdout


@pytest.mark.long
def test_a_lost_connection_is_noticed(lab: Lab, sshd: Sshd, tmp_path: Path) -> None:
    researcher = Researcher(lab, sshd, lab.login, lab.nodes[:1])
    researcher.write(lab.login, "project/exp.toml", EXPERIMENT.format(prefix=sys.prefix))
    desk, log = Desk(lab.login, researcher.project, researcher.name), tmp_path / "log"
    before = desk.listening()
    desk.type("submit", "exp.toml", "--on", "mine", "--name", "a")
    desk.where("a")
    with desk.dashboard("a", log) as process:
        lab.nodes[0].cut()
        assert process.wait(timeout=30) == 1
    assert "error: node1: the connection was lost" in log.read_text()
    assert desk.listening() == before


@pytest.mark.long
def test_a_compute_node_behind_a_login_node(lab: Lab, slurm: Slurm, sshd: Sshd, shared: Path) -> None:
    (shared / "exp.toml").write_text(EXPERIMENT.format(prefix=sys.prefix))
    laptop, log = Desk(lab.nodes[2], shared), shared / "log"
    login_before, laptop_before = Desk(lab.login, shared).listening(), laptop.listening()
    laptop.type("submit", "exp.toml", "--on", "big", "--name", "a", "--dashboard", "--directive=--nodelist=node1")
    found = laptop.where("a")
    assert found["host"] == "node1"
    with laptop.dashboard("a", log) as process:
        assert_only_the_token_lets_in(laptop, address_of("Ray's dashboard", log), found["token"])
        address_of("TensorBoard", log)
        assert Desk(lab.login, shared).listening() == login_before, "no port that others could try"
        assert laptop.interrupt(process) == 0
    assert laptop.listening() == laptop_before
    wait_until(lambda: not [c for c in commands_of(lab.login) if " relay " in c or "-L" in c], "the relay's end")

    login = Desk(lab.login, shared)
    with login.dashboard(found["run"], log) as process:
        assert_only_the_token_lets_in(login, address_of("Ray's dashboard", log), found["token"])
        assert "TensorBoard has no password, so it is not started on a login node" in log.read_text()
        assert re.search(r"ssh -N -L 127.0.0.1:(\d+):127.0.0.1:\1 root@login", log.read_text())
        assert not [command for command in commands_of(lab.login) if "tensorboard" in command]
        laptop.type("cancel", "a")
        assert process.wait(timeout=30) == 0, log.read_text()
    assert "Ray has ended" in log.read_text()
    assert login.listening() == login_before
