"""How a finding is to be taken, whatever was looked at."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """Good as it is, worth knowing, or in the way of training."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
