"""What happens to a training over three lab hosts when something is lost, and how long it takes.

The hosts are named to `muster launch`, which starts its ranks over ssh; training has two workers on each.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab.cluster import Lab, owned_lab
from tests.lab.host import Host
from tests.lab.services import Services

HOSTS = 3
MUSTER = str(Path(sys.executable).with_name("muster"))
EXPERIMENT = Path(__file__).parents[1] / "examples" / "ratio" / "ratio.toml"
BEFORE_SECONDS = 8.0
"""How long training goes well before the fault."""
LIMIT_SECONDS = 150.0
OURS = ("ray.scripts", "gcs_server", "raylet", "keeper_process.py", "muster", "ray::")


class Training:
    """One launch with a training in it, begun anew for each fault."""

    def __init__(self, lab: Lab, name: str, stop_seconds: float) -> None:
        self.lab = lab
        self.folder = lab.shared / name
        self.folder.mkdir()
        train = ["train", str(EXPERIMENT), "--name", "run", "--runs-dir", str(self.folder), "--stop-time"]
        command = [MUSTER, "launch", "--runs-dir", str(self.folder), "--cpus", "2", "--"]
        self.process = lab.login.popen(
            [*command, MUSTER, *train, f"{stop_seconds:g}s", "--workers", "6"],
            env={"MUSTER_HOSTS": ",".join(host.name for host in lab.nodes)},
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "log").open("w"),
        )
        _until(lambda: len(self.rows()) > 1, "training has begun")
        time.sleep(BEFORE_SECONDS)

    def rows(self) -> list[str]:
        path = self.folder / "run" / "metrics.csv"
        return path.read_text().splitlines()[1:] if path.exists() else []

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "run" / "status.json").read_text())
        return found

    def event(self, name: str) -> float | None:
        """Return when an event happened, by the head's timeline."""
        for path in self.folder.glob("launches/*/*bring-up.jsonl"):
            for line in path.read_text().splitlines():
                event = json.loads(line)
                if event["event"] == name:
                    return float(event["time"])
        return None

    def pause_after(self, moment: float) -> float:
        """Return how long the next row of the record took to come after a moment."""
        count = len(self.rows())
        _until(lambda: len(self.rows()) > count, "training goes on")
        return time.time() - moment

    def wait(self) -> int:
        return self.process.wait(timeout=LIMIT_SECONDS)

    def seconds_until_clean(self, hosts: list[Host], moment: float) -> float:
        _until(lambda: not any(_ours(host) for host in hosts), "nothing is left")
        return time.time() - moment


@dataclass(frozen=True)
class Outcome:
    """One row of the table."""

    fault: str
    happened: str


def run() -> str:
    """Cause each fault in turn."""
    outcomes = []
    with owned_lab(HOSTS) as lab:
        services = Services(lab)
        services.sshd()
        for fault in FAULTS:
            outcomes.append(fault(lab))
            print(f"{outcomes[-1].fault}: {outcomes[-1].happened}", file=sys.stderr, flush=True)
            services.restore()
    rows = [f"| {outcome.fault} | {outcome.happened} |" for outcome in outcomes]
    return "\n".join(
        [
            "# Faults while training over three hosts",
            "",
            "`muster launch` over ssh on 3 lab hosts (one machine of 2 cores), PPO on the "
            "ratio example with 6 workers; one run of each.",
            "",
            "| fault | what happened, and after how long |",
            "|---|---|",
            *rows,
            "",
        ]
    )


def worker_host_crashes(lab: Lab) -> Outcome:
    """Take the power from a host that is not the head's."""
    training = Training(lab, "worker-host", stop_seconds=60)
    moment = time.time()
    lab.nodes[2].crash()
    pause = training.pause_after(moment)
    code = training.wait()
    lost = training.event("host lost")
    noticed = f"the launch says so after {lost - moment:.0f} s" if lost else "the launch did not notice"
    replaced = training.rows()[-1].split(",")[8]
    return Outcome(
        "a worker's host loses power",
        f"training pauses {pause:.0f} s, then goes on with the others ({replaced} workers replaced); {noticed}; "
        f"ended well (code {code})",
    )


def launcher_is_killed(lab: Lab) -> Outcome:
    """Kill the rank that leads."""
    training = Training(lab, "launcher", stop_seconds=300)
    [rank] = [p for p in lab.nodes[0].processes() if "launch" in p.command and "muster" in " ".join(p.command)]
    moment = time.time()
    os.kill(rank.pid, signal.SIGKILL)
    seconds = training.seconds_until_clean(lab.nodes, moment)
    return Outcome(
        "the head's `muster launch` is killed by `kill -9`",
        f"nothing is left on any host after {seconds:.1f} s; code {training.wait()}; "
        "the run resumes from its last checkpoint",
    )


def head_host_crashes(lab: Lab) -> Outcome:
    """Take the power from the head's host."""
    training = Training(lab, "head-host", stop_seconds=300)
    moment = time.time()
    lab.nodes[0].crash()
    seconds = training.seconds_until_clean(lab.nodes[1:], moment)
    code = training.wait()
    return Outcome(
        "the head's host loses power",
        f"the others have ended everything of theirs after {seconds:.0f} s, the one who started it after "
        f"{time.time() - moment:.0f} s (code {code}); the run resumes from its last checkpoint",
    )


def short_cut(lab: Lab) -> Outcome:
    """Cut a host off for a moment."""
    return _cut(lab, 10)


def long_cut(lab: Lab) -> Outcome:
    """Cut a host off for longer than Ray waits."""
    return _cut(lab, 60)


def _cut(lab: Lab, seconds: float) -> Outcome:
    training = Training(lab, f"cut-{seconds:g}", stop_seconds=seconds + 40)
    moment = time.time()
    lab.nodes[2].cut()
    mending = subprocess.Popen(["sleep", str(seconds)])
    count = len(training.rows())
    while mending.poll() is None and len(training.rows()) <= count + 1:
        time.sleep(0.1)
    pause = time.time() - moment
    mending.wait()
    lab.nodes[2].mend()
    if pause >= seconds:
        pause = training.pause_after(moment)
    code = training.wait()
    lost = training.event("host lost")
    what = f"the host is given up after {lost - moment:.0f} s" if lost else "no host is lost"
    clean = training.seconds_until_clean(lab.nodes, time.time())
    return Outcome(
        f"a worker's host is cut off for {seconds:g} s",
        f"{what}; training pauses {pause:.0f} s, ended well (code {code}), nothing left {clean:.1f} s later",
    )


def terminated(lab: Lab) -> Outcome:
    """Ask the launch to end."""
    training = Training(lab, "term", stop_seconds=300)
    moment = time.time()
    training.process.send_signal(signal.SIGTERM)
    code = training.wait()
    ended = time.time() - moment
    seconds = training.seconds_until_clean([lab.login, *lab.nodes], moment)
    return Outcome(
        "SIGTERM",
        f"saved (state {training.status()['state']}), ended with code {code} after {ended:.1f} s, "
        f"nothing left after {seconds:.1f} s",
    )


FAULTS: tuple[Callable[[Lab], Outcome], ...] = (
    worker_host_crashes,
    launcher_is_killed,
    head_host_crashes,
    short_cut,
    long_cut,
    terminated,
)


def _ours(host: Host) -> list[str]:
    commands = [" ".join(process.command) for process in host.processes()]
    return [command for command in commands if any(name in command for name in OURS)]


def _until(look: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not look():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not after {LIMIT_SECONDS:g} s")
        time.sleep(0.1)


if __name__ == "__main__":
    print(run())
