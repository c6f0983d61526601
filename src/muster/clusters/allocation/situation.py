"""What every scheduler's reader starts from, and how they all read files of hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from muster.clusters.allocation.model import Grant, Host, Ranks, Sourced
from muster.clusters.allocation.variables import Environment, text
from muster.errors import AllocationError


@dataclass(frozen=True)
class Situation:
    """The environment of this process, which rank it is, and on which host."""

    environ: Environment
    ranks: Ranks | None
    host_name: str
    may_ask: bool
    """Whether to ask a scheduler's own commands for what the environment does not tell."""

    @property
    def is_first(self) -> bool:
        """Whether one process asks for all: a scheduler is not asked by a thousand ranks at once."""
        return self.may_ask and (self.ranks is None or self.ranks.rank.value == 0)

    def started_by(self, launcher: str) -> bool:
        """Whether this process is a rank of that launcher."""
        return self.ranks is not None and self.ranks.launcher.value == launcher

    def this_host_alone(self) -> Sourced[tuple[Host, ...]]:
        """Return this host as the only one that is known."""
        return Sourced((Host(self.host_name),), "this host's name")


Reader = Callable[[Situation], Grant | None]
"""Reads what one scheduler says; None if it did not start this process."""


def read_host_file(
    situation: Situation,
    variable: str,
    read: Callable[[Path, str], dict[str, int]],
    total: Sourced[int] | None = None,
) -> Sourced[dict[str, int]] | None:
    """Read the file that a variable names; each host with its number of slots.

    Some schedulers write it on the job's first host only, so that on a rank it may be missing: then None.

    Raises:
        AllocationError: if it cannot be read, or holds not as many slots as the scheduler says.
    """
    named = text(situation.environ, variable)
    if named is None:
        return None
    try:
        slots = read(Path(named.value), variable)
    except FileNotFoundError:
        if situation.ranks is not None:
            return None
        raise AllocationError(f"{variable}={named.value}: there is no such file") from None
    except OSError as error:
        raise AllocationError(f"{variable}={named.value}: cannot be read: {error.strerror}") from None
    if total is not None and sum(slots.values()) != total.value:
        raise AllocationError(
            f"{named.value} (from {variable}) holds {sum(slots.values())} slots, "
            f"but {total.source} says {total.value}: the file is cut short or of another job"
        )
    return Sourced(slots, variable)


def hosts_with_slots(slots: Sourced[dict[str, int]]) -> Sourced[tuple[Host, ...]]:
    """Return hosts whose slots are CPUs."""
    return Sourced(
        tuple(Host(name, cpus=Sourced(count, slots.source)) for name, count in slots.value.items()),
        slots.source,
    )


def hosts_named(names: Iterable[str], source: str, cpus: Sourced[int] | None = None) -> Sourced[tuple[Host, ...]]:
    """Return hosts of which only the names are known (or `user@name`), and perhaps their number of CPUs."""
    return Sourced(tuple(_host_named(name, cpus) for name in names), source)


def _host_named(written: str, cpus: Sourced[int] | None) -> Host:
    user, _, name = written.rpartition("@")
    return Host(name, cpus=cpus, user=user or None)
