"""`kill -9` of every single process of a launch over three hosts in turn: what is left after ten seconds."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.lab.cluster import Lab, owned_lab
from tests.lab.host import Host, HostProcess
from tests.lab.services import Services

from benchmarks.launched import LIMIT_SECONDS, Launched, end, ours, remains

HOSTS = 3
AFTER_SECONDS = 10.0


def _runs(*words: str) -> Callable[[HostProcess], bool]:
    return lambda process: all(word in " ".join(process.command) for word in words)


KINDS: dict[str, Callable[[HostProcess], bool]] = {
    "outer process": _runs("outer_process.py"),
    "rank": lambda process: "launch" in process.command and "python" in process.command[0],
    "keeper": _runs("keeper_process.py"),
    "ray start": _runs("ray.scripts"),
    "gcs_server": _runs("gcs/gcs_server"),
    "raylet": _runs("raylet/raylet"),
    "dashboard agent": _runs("ray::DashboardAgent"),
    "runtime env agent": _runs("ray::RuntimeEnvAgent"),
    "worker": _runs("ray::Worker"),
    "command": lambda process: _runs("muster", "train")(process) and "launch" not in process.command,
}
STARTERS = ("ssh", "srun")


@dataclass(frozen=True)
class Outcome:
    """One row of the table."""

    starter: str
    killed: str
    host: str
    launch: str
    left: list[str]
    """On the host of the process that was killed or, if the launch has ended, on all."""
    left_at_the_end: list[str]


def run() -> str:
    """Kill each process in turn."""
    outcomes = []
    with owned_lab(HOSTS) as lab:
        services = Services(lab)
        services.sshd()
        services.slurm()
        for starter in STARTERS:
            for kind, matches in KINDS.items():
                for host in lab.nodes[:2]:
                    if (outcome := kill(lab, starter, kind, matches, host)) is not None:
                        outcomes.append(outcome)
                        print(outcome, file=sys.stderr, flush=True)
                    services.restore()
    return "\n".join(
        [
            "# Every process of a launch, killed in turn",
            "",
            f"`muster launch` over {HOSTS} lab hosts (one machine of 2 cores), PPO on the ratio example with 6 "
            f"workers; `kill -9` of one process, then a look after {AFTER_SECONDS:g} s. Where the launch continues"
            " (without the host, or with a new worker), *left then* is what should have ended on the host of the "
            "killed process; the launch is then ended by TERM, and looked at again.",
            "",
            "| started by | killed | on | the launch, 10 s later | left then | left at its end |",
            "|---|---|---|---|---|---|",
            *map(_row, outcomes),
            "",
        ]
    )


def kill(lab: Lab, starter: str, kind: str, matches: Callable[[HostProcess], bool], host: Host) -> Outcome | None:
    """Start a launch, kill one of its processes on a host, and look; None if there is no such process there."""
    launched = Launched(lab, f"{starter}-{kind.replace(' ', '-')}-{host.name}", starter=starter)
    launched.await_training()
    victims = [process for process in host.processes() if matches(process)]
    everywhere = [lab.login, *lab.nodes]
    if not victims:
        _terminate(launched, starter)
        launched.wait()
        return None
    moment = time.time()
    end(victims[-1], signal.SIGKILL)
    while time.time() < moment + AFTER_SECONDS and launched.process.poll() is None:
        time.sleep(0.1)
    code, ended = launched.process.poll(), time.time() - moment
    time.sleep(max(0.0, moment + AFTER_SECONDS - time.time()))
    if code is not None:
        state, left = f"ended with code {code} after {ended:.1f} s", remains(everywhere)
    else:
        rows = len(launched.rows())
        state, left = "continues", _should_have_ended(host, kind)
        time.sleep(1)
        if len(launched.rows()) == rows:
            state = "waits for what the lost host had"
        _terminate(launched, starter)
        state += f", ended by TERM with code {launched.process.wait(LIMIT_SECONDS)}"
        time.sleep(1)
    return Outcome(starter, kind, "head" if host is lab.nodes[0] else "member", state, left, remains(everywhere))


def _terminate(launched: Launched, starter: str) -> None:
    """Ask the launch to end; srun itself would kill all ranks at once if it got TERM."""
    if starter == "srun":
        launched.lab.login.run(["scancel", "--signal=TERM", "--user=root"])
    else:
        launched.process.send_signal(signal.SIGTERM)


def _should_have_ended(host: Host, kind: str) -> list[str]:
    """Return what is left of a host's Ray that has lost one of its processes; a worker alone is replaced."""
    if kind == "worker":
        return []
    return [
        p.name
        for p in ours(host)
        if any(name in " ".join(p.command) for name in ("gcs_server", "raylet/", "ray::"))
    ]


def _row(outcome: Outcome) -> str:
    columns = [outcome.starter, outcome.killed, outcome.host, outcome.launch]
    return f"| {' | '.join([*columns, _list(outcome.left), _list(outcome.left_at_the_end)])} |"


def _list(found: list[str]) -> str:
    return "; ".join(found) or "nothing"
