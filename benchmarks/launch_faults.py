"""What happens to a training over three lab hosts when something is lost, and how long it takes.

The hosts are named to `muster launch`, which starts its ranks over ssh; training has two workers on each.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.lab.cluster import Lab, owned_lab
from tests.lab.services import Services

from benchmarks.launched import Launched, seconds_until_clean, until

HOSTS = 3
BEFORE_SECONDS = 8.0
"""How long training goes well before the fault."""


def _training(lab: Lab, name: str, stop_seconds: float, starter: str = "ssh") -> Launched:
    launched = Launched(lab, name, starter=starter, stop_seconds=stop_seconds)
    launched.await_training()
    time.sleep(BEFORE_SECONDS)
    return launched


def _pause_after(training: Launched, moment: float) -> float:
    """Return how long the next row of the record took to come after a moment."""
    count = len(training.rows())
    until(lambda: len(training.rows()) > count, "training continues")
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
        services.slurm()
        for fault in FAULTS:
            outcomes.append(fault(lab))
            print(f"{outcomes[-1].fault}: {outcomes[-1].happened}", file=sys.stderr, flush=True)
            services.restore()
    rows = [f"| {outcome.fault} | {outcome.happened} |" for outcome in outcomes]
    return "\n".join(
        [
            "# Faults while training over three hosts",
            "",
            "`muster launch` over ssh, or under srun where it says so, on 3 lab hosts (one machine of 2 cores), "
            "PPO on the ratio example with 6 workers; one run of each.",
            "",
            "| fault | what happened, and after how long |",
            "|---|---|",
            *rows,
            "",
        ]
    )


def worker_host_crashes(lab: Lab) -> Outcome:
    """Take the power from a host that is not the head's."""
    training = _training(lab, "worker-host", stop_seconds=60)
    moment = time.time()
    lab.nodes[2].crash()
    pause = _pause_after(training, moment)
    code = training.wait()
    lost = training.event("host lost")
    noticed = f"the launch says so after {lost - moment:.0f} s" if lost else "the launch did not notice"
    replaced = training.rows()[-1].split(",")[8]
    return Outcome(
        "a worker's host loses power",
        f"training pauses {pause:.0f} s, then continues with the others ({replaced} workers replaced); {noticed}; "
        f"ended well (code {code})",
    )


def launcher_is_killed(lab: Lab) -> Outcome:
    """Kill the rank that leads."""
    return _killed(lab, "ssh", "the head's `muster launch`", "muster")


def launcher_is_killed_under_srun(lab: Lab) -> Outcome:
    """Kill the rank that leads, where Slurm kills what a task leaves behind."""
    return _killed(lab, "srun", "the head's `muster launch` under srun", "muster")


def keeper_is_killed(lab: Lab) -> Outcome:
    """Kill the process that holds Ray on the head's host."""
    return _killed(lab, "ssh", "the keeper on the head's host", "keeper_process.py")


def keeper_is_killed_under_srun(lab: Lab) -> Outcome:
    """Kill the process that holds Ray on the head's host, under Slurm."""
    return _killed(lab, "srun", "the keeper on the head's host under srun", "keeper_process.py")


def _killed(lab: Lab, starter: str, what: str, program: str) -> Outcome:
    training = _training(lab, f"{program.partition('.')[0]}-{starter}", 300, starter)
    processes = [p for p in lab.nodes[0].processes() if program in " ".join(p.command)]
    if program == "muster":
        processes = [p for p in processes if "launch" in p.command]
    moment = time.time()
    os.kill(processes[-1].pid, signal.SIGKILL)
    code = training.wait()
    ended = time.time() - moment
    seconds = seconds_until_clean([lab.login, *lab.nodes], moment)
    return Outcome(
        f"{what} is killed by `kill -9`",
        f"code {code} after {ended:.1f} s; nothing is left on any host after {seconds:.1f} s; "
        "the run resumes from its last checkpoint",
    )


def head_host_crashes(lab: Lab) -> Outcome:
    """Take the power from the head's host."""
    training = _training(lab, "head-host", stop_seconds=300)
    moment = time.time()
    lab.nodes[0].crash()
    seconds = seconds_until_clean(lab.nodes[1:], moment)
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
    training = _training(lab, f"cut-{seconds:g}", stop_seconds=seconds + 40)
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
        pause = _pause_after(training, moment)
    code = training.wait()
    lost = training.event("host lost")
    what = f"the host is given up after {lost - moment:.0f} s" if lost else "no host is lost"
    clean = seconds_until_clean(lab.nodes, time.time())
    return Outcome(
        f"a worker's host is cut off for {seconds:g} s",
        f"{what}; training pauses {pause:.0f} s, ended well (code {code}), nothing left {clean:.1f} s later",
    )


def terminated(lab: Lab) -> Outcome:
    """Ask the launch to end."""
    training = _training(lab, "term", stop_seconds=300)
    moment = time.time()
    training.process.send_signal(signal.SIGTERM)
    code = training.wait()
    ended = time.time() - moment
    seconds = seconds_until_clean([lab.login, *lab.nodes], moment)
    return Outcome(
        "SIGTERM",
        f"saved (state {training.status()['state']}), ended with code {code} after {ended:.1f} s, "
        f"nothing left after {seconds:.1f} s",
    )


FAULTS: tuple[Callable[[Lab], Outcome], ...] = (
    worker_host_crashes,
    launcher_is_killed,
    launcher_is_killed_under_srun,
    keeper_is_killed,
    keeper_is_killed_under_srun,
    head_host_crashes,
    short_cut,
    long_cut,
    terminated,
)


if __name__ == "__main__":
    print(run())
