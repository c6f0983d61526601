"""A Ray over hosts of the lab that share nothing, with a job server and a token, run by the user `researcher`."""

import secrets
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from .errors import LabError
from .host import Host
from .layout import RESEARCHER, RESEARCHER_HOME

OWNER = (1500, 1500)
PORT, DASHBOARD_PORT = 6399, 8265
START_SECONDS = 60.0
SIZES = ("--memory=1000000000", "--object-store-memory=100000000")
TOKEN = RESEARCHER_HOME / ".ray" / "auth_token"


class RayCluster:
    """A head without CPUs, and nodes with some, as `ray up` makes them."""

    def __init__(self, head: Host, nodes: Sequence[Host], *, num_cpus: int = 2) -> None:
        self.head, self.nodes = head, list(nodes)
        self.token = secrets.token_hex(16)
        self.address = f"http://{head.address}:{DASHBOARD_PORT}"
        self._num_cpus = num_cpus
        for host in (head, *nodes):
            settle(host)
            write(host, TOKEN, self.token)

    def start(self) -> None:
        """Start the head and all nodes; return when the job server answers."""
        server = ["--dashboard-host=0.0.0.0", f"--dashboard-port={DASHBOARD_PORT}", "--include-dashboard=true"]
        self._ray(self.head, "--head", f"--port={PORT}", "--num-cpus=0", *server)
        self._wait_for_server()
        for node in self.nodes:
            self.add(node)

    def add(self, node: Host) -> None:
        """Let a host join."""
        self._ray(node, f"--address={self.head.address}:{PORT}", f"--num-cpus={self._num_cpus}")

    def _ray(self, host: Host, *options: str) -> None:
        variables = {
            "RAY_AUTH_MODE": "token",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_enable_metrics_collection": "0",
        }
        log = host.path(RESEARCHER_HOME / "ray.log").open("w")
        host.popen(
            ["ray", "start", "--block", "--disable-usage-stats", *SIZES, *options],
            env=variables,
            cwd=RESEARCHER_HOME,
            user=RESEARCHER,
            stdout=log,
            stderr=subprocess.STDOUT,
        )

    def _wait_for_server(self) -> None:
        """Ask from the head itself, for the machine has no way into the lab."""
        asked = f"import urllib.request as u; u.urlopen({self.address!r} + '/api/authentication_mode', timeout=5)"
        deadline = time.monotonic() + START_SECONDS
        while self.head.run(["python", "-c", asked], check=False).returncode:
            if time.monotonic() > deadline:
                log = self.head.path(RESEARCHER_HOME / "ray.log").read_text()
                raise LabError(f"no job server after {START_SECONDS:g} s: {log}")
            time.sleep(0.5)


def settle(host: Host) -> None:
    """Give the user an empty home on a host."""
    home = host.path(RESEARCHER_HOME)
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    shutil.chown(home, *OWNER)


def write(host: Host, path: Path, text: str) -> None:
    """Write a file of the user's, which nobody else may read."""
    file = host.path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o600)
    for owned in (file, *file.parents):
        if not owned.is_relative_to(host.path(RESEARCHER_HOME)):
            break
        shutil.chown(owned, *OWNER)
