"""What was found by looking at a simulator."""

from __future__ import annotations

from dataclasses import dataclass

from muster.simulators.verdict import Verdict
from muster.stepping.calls import Call
from muster.stepping.failures import SimulatorFailure


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    verdict: Verdict
    subject: str
    message: str
    hint: str = ""


def of_failure(failure: SimulatorFailure) -> Finding:
    """Return the finding that a failure is."""
    where = "" if failure.call == Call.BUILD.word else f" (step {failure.step} of an episode with random actions)"
    message = f"{failure.call} fails: {failure.error}{where}\n{failure.traceback}"
    return Finding(Verdict.PROBLEM, failure.call, message.strip())
