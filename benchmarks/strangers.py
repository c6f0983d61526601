"""What a user without a token finds on a host while others use muster there: every open port, every file."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from tests.lab.cluster import owned_lab
from tests.lab.host import Host
from tests.lab.services import Services
from tests.lab.strangers import ask_ports, reachable_files

MUSTER = str(Path(sys.executable).with_name("muster"))
OWNER, STRANGER = "daemon", "nobody"
TRAIN = ["train", "CartPole-v1", "--stop-time", "200s", "--workers", "2", "--name", "run"]
LIMIT_SECONDS = 60.0


def run() -> str:
    """Look at a training, at a launch on one host, and at one over three hosts."""
    rows, files = [], []
    with owned_lab(3) as lab:
        Services(lab).sshd()
        cases: dict[str, tuple[list[str], dict[str, str], str]] = {
            "`train --workers 2`": (TRAIN, {}, OWNER),
            "`launch` on one host": (["launch", "--", MUSTER, *TRAIN], {}, OWNER),
            "`launch` over three hosts": (
                ["launch", "--cpus", "1", "--", MUSTER, *TRAIN],
                {"MUSTER_HOSTS": "node1,node2,node3"},
                "root",
            ),
        }
        for title, (arguments, env, owner) in cases.items():
            found, reached = _look(lab.nodes[0], arguments, env, owner, lab.shared)
            rows += [f"| {title} | {row} |" for row in found]
            files.append(f"| {title} | {', '.join(reached) or 'none'} |")
    return "\n".join(
        [
            "# What a stranger finds",
            "",
            f"A user ({STRANGER}) without any token on a lab host where another trains. Every open port is "
            "asked by HTTP and by a call of each of Ray's services; every file of the owner below /tmp, /dev/shm, "
            "/run and /var/tmp is tried: to write to it, or to read it if it is a socket, a token or a secret. "
            "What is unavailable to such calls is the board of a launch: it speaks TLS, with a key that the "
            "stranger lacks.",
            "",
            "| running | program | listens on | answers |",
            "|---|---|---|---|",
            *rows,
            "",
            "| running | files within reach |",
            "|---|---|",
            *files,
            "",
        ]
    )


def _look(
    host: Host, arguments: list[str], env: dict[str, str], owner: str, shared: Path
) -> tuple[list[str], list[str]]:
    home = shared / f"home-{time.time_ns()}"
    home.mkdir()
    host.run(["chown", owner, str(home)])
    process = host.popen([MUSTER, *arguments], user=owner, cwd=home, env={"HOME": str(home), **env})
    deadline = time.monotonic() + LIMIT_SECONDS
    while not (home / "runs" / "run" / "metrics.csv").exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    ports = [port for port in ask_ports(host, owner, STRANGER) if port.program not in ("sshd", "munged")]
    reached = reachable_files(host, owner, STRANGER)
    process.send_signal(signal.SIGTERM)
    process.wait(LIMIT_SECONDS)
    return sorted({f"{port.program} | {port.address} | {port.answer}" for port in ports}), reached
