"""A launch in the lab with a training in it, for several measurements: started, watched, what is left of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.lab.cluster import Lab
from tests.lab.host import Host, HostProcess
from tests.lab.mpi import OPEN_MPI

MUSTER = str(Path(sys.executable).with_name("muster"))
EXPERIMENT = Path(__file__).parents[1] / "examples" / "ratio" / "ratio.toml"
LIMIT_SECONDS = 150.0
OURS = ("ray.scripts", "gcs_server", "raylet", "_process.py", "muster", "ray::", "/ray/")
STARTERS: dict[str, Callable[[Lab], tuple[list[str], dict[str, str]]]] = {
    "ssh": lambda lab: ([], {"MUSTER_HOSTS": ",".join(host.name for host in lab.nodes)}),
    "salloc": lambda lab: (["salloc", f"--nodes={len(lab.nodes)}", "--ntasks-per-node=1"], {}),
    "srun": lambda lab: (["srun", f"--nodes={len(lab.nodes)}", "--ntasks-per-node=1", "--no-kill"], {}),
    "mpirun": lambda lab: (OPEN_MPI.command(lab.nodes, 1, []), dict(OPEN_MPI.env)),
}
"""What stands before `muster launch`, and its environment."""


class Launched:
    """One launch with a training in it."""

    def __init__(self, lab: Lab, name: str, *, starter: str = "ssh", stop_seconds: float = 300) -> None:
        self.lab = lab
        self.folder = lab.shared / name
        self.folder.mkdir()
        before, env = STARTERS[starter](lab)
        train = ["train", str(EXPERIMENT), "--name", "run", "--runs-dir", str(self.folder), "--resume"]
        launch = [MUSTER, "launch", "--runs-dir", str(self.folder), "--cpus", "2", "--"]
        self.log = self.folder / "log"
        self.started = time.time()
        self.process = lab.login.popen(
            [*before, *launch, MUSTER, *train, "--stop-time", f"{stop_seconds:g}s", "--workers", "6"],
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=self.log.open("w"),
        )

    def await_training(self) -> None:
        """Wait until the first iteration is recorded."""
        until(lambda: len(self.rows()) > 1 or self.process.poll() is not None, "training has begun")

    def rows(self) -> list[str]:
        """Return the rows of the record so far."""
        path = self.folder / "run" / "metrics.csv"
        return path.read_text().splitlines()[1:] if path.exists() else []

    def status(self) -> dict[str, Any]:
        """Return the run's status; empty if it was never begun."""
        path = self.folder / "run" / "status.json"
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def saved_iteration(self) -> int | None:
        """Return the iteration of the last checkpoint, or None."""
        names = [path.name for path in self.folder.glob("run/checkpoints/[0-9]*")]
        return max(map(int, names), default=None)

    def event(self, name: str) -> float | None:
        """Return when an event happened, by the head's timeline."""
        for path in self.folder.glob("launches/*/*bring-up.jsonl"):
            for line in path.read_text().splitlines():
                event = json.loads(line)
                if event["event"] == name:
                    return float(event["time"])
        return None

    def wait(self) -> int:
        """Return the code with which the launch ends."""
        return self.process.wait(timeout=LIMIT_SECONDS)


def ours(host: Host) -> list[HostProcess]:
    """Return the processes of launches on a host."""
    return [p for p in host.processes() if any(name in " ".join(p.command) for name in OURS)]


def remains(hosts: Sequence[Host]) -> list[str]:
    """Return what is left of launches on hosts: processes and temporary folders."""
    found = []
    for host in hosts:
        found += [f"{host.name}: {' '.join(process.command)[:60]}" for process in ours(host)]
        found += [f"{host.name}: /tmp/{path.name}" for path in host.path("/tmp").glob("muster-*")]
    return found


def seconds_until_clean(hosts: Sequence[Host], moment: float) -> float:
    """Wait until nothing is left on hosts; return how long after a moment that was."""
    until(lambda: not remains(hosts), "nothing is left")
    return time.time() - moment


def until(look: Callable[[], bool], what: str, seconds: float = LIMIT_SECONDS) -> None:
    """Wait for something, with a limit."""
    deadline = time.monotonic() + seconds
    while not look():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not after {seconds:g} s")
        time.sleep(0.1)


def end(process: HostProcess, number: int) -> bool:
    """Send a signal to a process; return whether it was there."""
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    return True
