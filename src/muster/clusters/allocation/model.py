"""What an allocation is: plain data, in which every value keeps where it came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Sourced(Generic[T]):
    """A value and its source: `1 (from SLURM_CPUS_ON_NODE)`."""

    value: T
    source: str

    def __str__(self) -> str:
        return f"{self.value} (from {self.source})"


@dataclass(frozen=True)
class Host:
    """A host and our share of it; None for what nobody has told."""

    name: str
    cpus: Sourced[int] | None = None
    gpus: Sourced[int] | None = None
    memory: Sourced[int] | None = None
    """Bytes."""
    user: str | None = None
    """Who to log in as, where that is not the user of this process."""

    @property
    def login(self) -> str:
        """What a remote shell is told to reach it."""
        return f"{self.user}@{self.name}" if self.user else self.name


@dataclass(frozen=True)
class Ranks:
    """The parallel step that this process is one rank of."""

    launcher: Sourced[str]
    rank: Sourced[int]
    num_ranks: Sourced[int] | None = None
    local_rank: Sourced[int] | None = None
    num_local_ranks: Sourced[int] | None = None
    host_index: Sourced[int] | None = None
    """Place of this host among the step's hosts, as the launcher counts them."""
    step_id: Sourced[str] | None = None
    """What the launcher calls this launch; the same on all its ranks."""
    step_id_is_unique: bool = False
    """Whether no other launch has this id, whatever the job."""


@dataclass(frozen=True)
class Grant:
    """What the scheduler alone says: its hosts with their shares, the job, its end."""

    scheduler: Sourced[str]
    hosts: Sourced[tuple[Host, ...]]
    knows_all_hosts: bool = True
    this_host: Sourced[str] | None = None
    """The scheduler's own name of this host, where it tells it."""
    are_handed_on: bool = False
    """Whether only this process could learn the shares, so that a head tells the other hosts theirs."""
    ranks_per_host: Sourced[tuple[int, ...]] | None = None
    job_id: Sourced[str] | None = None
    attempt: Sourced[int] | None = None
    """How often the scheduler has started this job before, under the same id."""
    end_time: Sourced[float] | None = None
    scratch: Sourced[str] | None = None
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Machine:
    """What this machine and its kernel allow this process, whatever a scheduler says."""

    name: str
    cpus: int
    gpus: int
    memory: int | None = None
    """Bytes."""
    affinity: frozenset[int] | None = None
    """CPUs that this process may run on; None where the system has no such mask."""
    cgroup_cpus: Sourced[int] | None = None
    cgroup_memory: Sourced[int] | None = None


@dataclass(frozen=True)
class Allocation:
    """Where we may run: filled by a scheduler, a launcher or, on a laptop, by the machine alone."""

    scheduler: Sourced[str]
    hosts: Sourced[tuple[Host, ...]]
    """In the scheduler's order. The share of this host is the least of all that limit it."""
    knows_all_hosts: bool
    """False under a launcher that names no hosts: then `hosts` holds this one alone."""
    host_index: Sourced[int] | None
    """Place of this host in `hosts`; None on a login or service node, which is not part of the allocation."""
    ranks: Ranks | None
    """None inside an allocation but outside a parallel step: `salloc`, a job script's own shell, a laptop."""
    ranks_per_host: Sourced[tuple[int, ...]] | None
    job_id: Sourced[str] | None
    launch_id: Sourced[str] | None
    """The same on all ranks of one launch and no other's; fit for a file name."""
    end_time: Sourced[float] | None
    """Unix time."""
    grace: Sourced[float]
    """Seconds between the TERM that ends a job early and the KILL that follows it."""
    scratch: Sourced[str]
    """A folder on this host's own disk."""
    machine: Machine
    granted: Host | None
    """The scheduler's word alone on this host."""
    are_handed_on: bool = False
    """Whether only this process could learn the shares of the other hosts."""
    doubts: tuple[str, ...] = ()
    """What does not fit together, for a person to read."""

    @property
    def in_step(self) -> bool:
        """Return whether this process is one rank of a parallel step."""
        return self.ranks is not None

    @property
    def this_host(self) -> Host | None:
        """Return this host and our share of it, if it is part of the allocation."""
        return None if self.host_index is None else self.hosts.value[self.host_index.value]
