"""What the ranks of an examination tell each other, and who speaks for each host."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version


@dataclass(frozen=True)
class Card:
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


def speakers(cards: Iterable[Card]) -> dict[str, Card]:
    """Return the card of the first rank on each host that examines it."""
    found: dict[str, Card] = {}
    for card in sorted(cards, key=lambda card: card.rank):
        if card.examines:
            found.setdefault(card.host, card)
    return found
