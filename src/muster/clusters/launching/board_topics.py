"""What is said on the board of a launch: by the hosts, one value a rank, and by the head to all."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Topic(StrEnum):
    """What a host tells the head of; the value's type is in brackets."""

    HOST = "host"
    """A host has come: its card [HostCard as a dict]."""
    TROUBLE = "trouble"
    """What keeps the host's Ray from reaching the head [str, or None if nothing does any more]."""
    FAILED = "failed"
    """The host cannot come any more [dict: host, why]."""
    SIGNALS = "signals"
    """Signals that ranks have received; each is taken once [list of int]. Its number is a time, not a rank."""
    LEFT = "left"
    """The host has ended its Ray: its timeline [list of events]."""


@dataclass(frozen=True)
class HeadState:
    """What the head tells all hosts."""

    all_here: bool = False
    """Whether all ranks of the launch have come."""
    head: str | None = None
    """The address of Ray's head, when it is up."""
    token: str | None = None
    """The secret of that Ray."""
    ready: bool = False
    """Whether all hosts are in, and the command runs."""
    done: int | None = None
    """The launch's exit code, when it is over."""
    failure: str | None = None
    """Why the head failed, if it did before it could lead."""
    own: dict[str, Any] | None = None
    """What the head knows of this host's share, told to this host alone."""
    version: int = -1
    """Counts the changes."""
