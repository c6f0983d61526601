"""Two unprivileged users on one host at the same time, and a third who has no business with either."""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from .cluster import Lab
from .host import Host
from .strangers import ask_ports, listening, reachable_files
from .test_launch import wait_for_file

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

MUSTER = str(Path(sys.executable).with_name("muster"))
USERS = ("daemon", "games")
STRANGER = "nobody"
SWEEP = """
[env]
id = "CartPole-v1"

[resources]
workers = 1

[stop]
iterations = 2

[sweep]
trials = 2
concurrent = 1

[sweep.parameters]
"algorithm.lr" = { uniform = [1e-4, 1e-3] }
"""
TRAIN = ["train", "CartPole-v1", "--stop-iterations", "4", "--workers", "2", "--name", "run"]


@pytest.fixture
def host(lab: Lab) -> Host:
    """A host with an empty home folder for each user, on its own disk, that others can enter as is usual."""
    host = lab.nodes[0]
    for user in USERS:
        host.run(["rm", "-rf", f"/tmp/home-{user}"])
        host.run(["install", "-d", "-o", user, "-m", "0755", f"/tmp/home-{user}"])
    return host


def home(user: str) -> Path:
    return Path(f"/tmp/home-{user}")


def start(host: Host, user: str, arguments: Sequence[str], umask: str = "022") -> subprocess.Popen[str]:
    """Start muster as a user, in their home."""
    folder = home(user)
    command = ["sh", "-c", f'umask {umask}; exec "$@" >"$HOME/log" 2>&1', "sh", MUSTER, *arguments]
    return host.popen(command, user=user, cwd=folder, env={"HOME": str(folder), "COLUMNS": "100"})


def log(host: Host, user: str) -> str:
    return host.path(home(user) / "log").read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(TRAIN, marks=pytest.mark.long),
        ["launch", "--cpus", "2", "--", MUSTER, *TRAIN],
        ["doctor", "CartPole-v1"],
        pytest.param(["sweep", "sweep.toml"], marks=pytest.mark.long),
    ],
    ids=lambda arguments: arguments[0],
)
def test_two_users_at_once_do_not_disturb_each_other(host: Host, arguments: list[str]) -> None:
    for user in USERS:
        host.path(home(user) / "sweep.toml").write_text(SWEEP)
    processes = {user: start(host, user, arguments) for user in USERS}
    codes = {user: process.wait(timeout=200) for user, process in processes.items()}
    assert codes == dict.fromkeys(USERS, 0), {user: log(host, user) for user in USERS}
    for user, other in (USERS, USERS[::-1]):
        assert f"home-{other}" not in log(host, user)
        assert not listening(host, user)
        assert not [str(path) for path in host.path("/tmp").glob("muster-*")]


@pytest.mark.parametrize("umask", ["077", "000"])
def test_the_first_user_of_a_host_locks_nobody_out(host: Host, umask: str) -> None:
    for user in USERS:
        process = start(host, user, ["doctor", "--json"], umask)
        assert process.wait(timeout=60) == 0, log(host, user)
        table = json.loads(log(host, user).splitlines()[-1])
        assert {finding["verdict"] for finding in table["findings"] if finding["check"] == "ports"} == {"ok"}


@pytest.mark.parametrize("kind", ["launch", "train"])
def test_a_stranger_gets_in_nowhere(host: Host, kind: str) -> None:
    owner = USERS[0]
    train = ["train", "CartPole-v1", "--stop-time", "200s", "--workers", "2", "--name", "run"]
    process = start(host, owner, ["launch", "--", MUSTER, *train] if kind == "launch" else train)
    wait_for_file(host.path(home(owner) / "runs/run/metrics.csv"), host.path(home(owner) / "log"))
    ports = ask_ports(host, owner, STRANGER)
    assert {port.address for port in ports} == {"127.0.0.1"}, "all on one host, so only loopback is needed"
    assert not [port for port in ports if port.lets_in]
    assert "gcs_server" in {port.program for port in ports}
    assert not reachable_files(host, owner, STRANGER)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=40) == 143, log(host, owner)
    assert not list(host.path("/tmp").glob("muster-*"))
