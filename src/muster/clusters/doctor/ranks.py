"""What the ranks of an examination tell each other, and who speaks for each host."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version


class Topic(StrEnum):
    """What is written where the ranks meet, in this order."""

    CARD = "card"
    """Each rank, when it comes: its `ExaminedRank`."""
    QUESTION = "question"
    """Rank 0, when all are here or the time is over: its time."""
    ANSWER = "answer"
    """One rank a host: its time, and the `Doorplate` where it answers the others."""
    DOORS = "doors"
    """Rank 0: all these doorplates."""
    REPORT = "report"
    """One rank a host: what it found there."""


@dataclass(frozen=True)
class ExaminedRank:
    """What a rank tells the others when it comes."""

    rank: int
    host: str
    examines: bool
    """Whether it examines its host; one rank a host does, where the launcher says which is its first."""
    affinity: list[int]
    versions: dict[str, str]


@dataclass(frozen=True)
class Doorplate:
    """Where a host answers the others, and by which word they know that it is this host."""

    host: str
    address: str | None
    port: int
    token: str


def own_versions() -> dict[str, str]:
    """Return the versions that must be the same on all hosts."""
    return {"Python": platform.python_version(), "Ray": version("ray"), "muster": version("muster-rl")}


def speakers(cards: Iterable[ExaminedRank]) -> dict[str, ExaminedRank]:
    """Return the card of the first rank on each host that examines it."""
    found: dict[str, ExaminedRank] = {}
    for card in sorted(cards, key=lambda card: card.rank):
        if card.examines:
            found.setdefault(card.host, card)
    return found
