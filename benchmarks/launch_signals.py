"""A hundred signals at random moments of launches over three hosts, from their first second on.

Every launch must end in time with the contract's code and leave nothing on any host, and its run must be saved, or
never have begun.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from tests.lab.cluster import Lab, owned_lab
from tests.lab.services import Services

from benchmarks.launched import MUSTER, Launched, remains

HOSTS = 3
SIGNALS = 100
LATEST_SECONDS = 22.0
"""Bring-up takes about the first half of this, training the rest."""
LIMIT_SECONDS = 40.0
CLEAN_SECONDS = 10.0
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143, signal.SIGUSR2: 75}
TARGETS = ("process", "group", "twice")
STARTERS = ("ssh", "salloc")
LABS = 2

Case = tuple[str, str, str]
"""What started the launch, the signal, and to whom it was sent."""


@dataclass(frozen=True)
class Outcome:
    """What came of one signal."""

    phase: str
    seconds: float
    troubles: list[str]


def run(part: str = "") -> str:
    """Send the signals, half of them in each of two labs; `part` is another number of them."""
    numbers = range(int(part or SIGNALS))
    with ProcessPoolExecutor(LABS, multiprocessing.get_context("spawn")) as pool:
        halves = pool.map(_interrupt_all, [list(numbers[lab::LABS]) for lab in range(LABS)])
    cases: dict[Case, list[Outcome]] = {}
    for case, outcome in sorted((pair for half in halves for pair in half), key=lambda pair: pair[0]):
        cases.setdefault(case, []).append(outcome)
    return "\n".join(
        [
            "# Signals to launches over three hosts",
            "",
            f"{len(numbers)} launches over {HOSTS} lab hosts, in {LABS} labs at a time (one machine of 2 cores), "
            "PPO on the ratio example with 6 workers; one signal each, at a random moment of the first "
            f"{LATEST_SECONDS:g} s, to what started the launch: to the process, to its process group, or twice, "
            f"0.2 s apart. In good order: ended with the right code within {LIMIT_SECONDS:g} s, nothing left on "
            f"any host {CLEAN_SECONDS:g} s later, the run saved or never begun.",
            "",
            "| started by | signal | to | launches | in bring-up | in good order | seconds to the end (longest) |",
            "|---|---|---|---|---|---|---|",
            *(
                f"| {' | '.join(case)} | {len(found)} | {sum(o.phase == 'bring-up' for o in found)} | "
                f"{sum(not o.troubles for o in found)} | {max(o.seconds for o in found):.1f} |"
                for case, found in cases.items()
            ),
            "",
            *(
                f"- {' '.join(case)}: {text}"
                for case, found in cases.items()
                for o in found
                for text in o.troubles
            ),
        ]
    )


def _interrupt_all(numbers: list[int]) -> list[tuple[Case, Outcome]]:
    outcomes: list[tuple[Case, Outcome]] = []
    with owned_lab(HOSTS) as lab:
        services = Services(lab)
        services.sshd()
        services.slurm()
        for number in numbers:
            kind = list(CODES)[number % len(CODES)]
            target = TARGETS[number // len(CODES) % len(TARGETS)]
            starter = STARTERS[number // (len(CODES) * len(TARGETS)) % len(STARTERS)]
            moment = random.Random(number).uniform(0.3, LATEST_SECONDS)
            outcome = interrupt(lab, f"launch-{number}", starter, kind, target, moment)
            outcomes.append(((starter, kind.name, target), outcome))
            print(number, starter, kind.name, target, f"{moment:.1f}", outcome, file=sys.stderr, flush=True)
            if outcome.troubles:
                services.restore()
    return outcomes


def interrupt(lab: Lab, name: str, starter: str, number: signal.Signals, target: str, moment: float) -> Outcome:
    """Start a launch, send it a signal some seconds later, and look at what comes of it."""
    launched = Launched(lab, name, starter=starter)
    time.sleep(moment)
    phase = "training" if launched.event("command started") else "bring-up"
    sent = time.time()
    starting = next((p.pid for p in lab.login.processes() if p.command[1:3] == (MUSTER, "launch")), None)
    for _ in range(2 if target == "twice" else 1):
        if starting is not None and target == "group":
            os.killpg(os.getpgid(starting), number)
        elif starting is not None:
            os.kill(starting, number)
        time.sleep(0.2 if target == "twice" else 0)
    troubles = []
    try:
        code = launched.process.wait(LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        code = None
    seconds = time.time() - sent
    # One that comes before Python has taken the signals ends the process as any other.
    if code not in (CODES[number], -number, 128 + number):
        troubles.append(
            f"at {moment:.1f} s: code {code}, expected {CODES[number]}; {launched.log.read_text()[-300:]}"
        )
    status, saved = launched.status(), launched.saved_iteration()
    if status and (status["state"] != "stopped" or (saved or 0) < status["iteration"]):
        troubles.append(
            f"at {moment:.1f} s: not saved: {status['state']}, iteration {status['iteration']}, {saved}"
        )
    deadline = time.time() + CLEAN_SECONDS
    while (left := remains([lab.login, *lab.nodes])) and time.time() < deadline:
        time.sleep(0.2)
    if left:
        troubles.append(f"at {moment:.1f} s: left: {left}")
    return Outcome(phase, seconds, troubles)
