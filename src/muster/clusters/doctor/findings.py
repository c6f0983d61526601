"""What the doctor finds: one check, its verdict, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from muster.errors import MusterError
from muster.simulators.verdict import Verdict


@dataclass(frozen=True)
class HostFinding:
    """One thing that was looked at on one host.

    A message that is the same on many hosts becomes one row of the report: so one that is well has no figures
    in it that differ from host to host.
    """

    check: str
    verdict: Verdict
    message: str
    remedy: str = ""


def well(check: str, message: str) -> HostFinding:
    """Return that a check found nothing wrong."""
    return HostFinding(check, Verdict.OK, message)


def warning(check: str, message: str, remedy: str) -> HostFinding:
    """Return something that training survives but that a person should know."""
    return HostFinding(check, Verdict.WARNING, message, remedy)


def problem(check: str, message: str, remedy: str) -> HostFinding:
    """Return something that training will fail of."""
    return HostFinding(check, Verdict.PROBLEM, message, remedy)


def explained_problem(check: str, error: MusterError, otherwise: str = "") -> HostFinding:
    """Return an error as a problem: its first line says what is wrong, the others, if any, what to do."""
    message, _, remedy = str(error).partition("\n")
    return problem(check, message, " ".join(remedy.split()) or otherwise)
