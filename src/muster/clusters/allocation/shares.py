"""Our share of a host: the least of all that limit it. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from muster.clusters.allocation.model import Host, Machine, Sourced

Number = TypeVar("Number", int, float)


def least(values: Iterable[Sourced[Number] | None]) -> Sourced[Number] | None:
    """Return the smallest of the values that are known, with its source; of equals, the first."""
    return min((value for value in values if value is not None), key=lambda value: value.value, default=None)


def cpus_of_host(
    masks: Sequence[frozenset[int]], scheduler_cpus: Sourced[int] | None, cgroup_cpus: Sourced[int] | None
) -> Sourced[int] | None:
    """Return a host's CPUs: the least of what its scheduler, its cgroup and its ranks' masks together allow.

    Launchers pin each rank to CPUs of its own, so that only the union of the masks of all ranks on the host is
    the host's share. Returns None if nothing is known.
    """
    union = frozenset[int]().union(*masks)
    source = "the affinity mask" if len(masks) == 1 else f"the affinity masks of {len(masks)} ranks"
    allowed = Sourced(len(union), source) if union else None
    return least([scheduler_cpus, cgroup_cpus, allowed])


def gpus_of_host(
    masks: Sequence[Sourced[tuple[str, ...]]], scheduler_gpus: Sourced[int] | None, machine_gpus: int
) -> Sourced[int]:
    """Return a host's GPUs: the least of what its scheduler and its ranks' masks together allow.

    What the machine has counts only where neither says anything.
    """
    allowed = None
    if masks:
        allowed = Sourced(len({device for mask in masks for device in mask.value}), masks[0].source)
    return least([scheduler_gpus, allowed]) or Sourced(machine_gpus, "this machine")


def share_of(granted: Host, machine: Machine, gpu_mask: Sourced[tuple[str, ...]] | None) -> Host:
    """Return this process's share of its host, as far as this process alone can tell."""
    masks = [] if machine.affinity is None else [machine.affinity]
    cpus = cpus_of_host(masks, granted.cpus, machine.cgroup_cpus)
    memory = None if machine.memory is None else Sourced(machine.memory, "this machine")
    return Host(
        granted.name,
        least([cpus, Sourced(machine.cpus, "this machine")]),
        gpus_of_host([gpu_mask] if gpu_mask else [], granted.gpus, machine.gpus),
        least([granted.memory, machine.cgroup_memory, memory]),
        granted.user,
    )


def narrowed(own: Host | None, told: Host | None) -> Host | None:
    """Return a host with the least of what this process and another one know of its share."""
    if own is None or told is None:
        return own or told
    return replace(
        own,
        cpus=least([own.cpus, told.cpus]),
        gpus=least([own.gpus, told.gpus]),
        memory=least([own.memory, told.memory]),
    )


def from_table(table: Mapping[str, Any]) -> Host:
    """Return a host from the table that `dataclasses.asdict` made of it."""
    shares = {key: Sourced(**table[key]) if table[key] else None for key in ("cpus", "gpus", "memory")}
    return Host(table["name"], user=table["user"], **shares)
