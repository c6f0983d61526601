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


def share_of(
    granted: Host | None,
    machine: Machine,
    cpu_masks: Sequence[frozenset[int]],
    gpu_masks: Sequence[Sourced[tuple[str, ...]]],
) -> Host:
    """Return our share of this host: the least of what its scheduler, cgroup, ranks' masks and machine allow.

    Launchers pin each rank to CPUs and GPUs of its own, so that only the union of all ranks' masks is the
    host's share. The machine's GPUs count only where neither scheduler nor masks say anything.
    """
    granted = granted or Host(machine.name)
    memory = None if machine.memory is None else Sourced(machine.memory, "this machine")
    cpus = [granted.cpus, machine.cgroup_cpus, _union_of_cpus(cpu_masks), Sourced(machine.cpus, "this machine")]
    return replace(
        granted,
        cpus=least(cpus),
        gpus=least([granted.gpus, _union_of_gpus(gpu_masks)]) or Sourced(machine.gpus, "this machine"),
        memory=least([granted.memory, machine.cgroup_memory, memory]),
    )


def own_share(granted: Host | None, machine: Machine, gpu_mask: Sourced[tuple[str, ...]] | None) -> Host:
    """Return this process's share of its host, as far as this process alone can tell."""
    cpu_masks = [] if machine.affinity is None else [machine.affinity]
    return share_of(granted, machine, cpu_masks, [gpu_mask] if gpu_mask else [])


def most_cpus(granted: Host | None, machine: Machine) -> int:
    """Return how many CPUs of this host its ranks may have together, before all of them are known."""
    return granted.cpus.value if granted and granted.cpus else machine.cpus


def _union_of_cpus(masks: Sequence[frozenset[int]]) -> Sourced[int] | None:
    union = frozenset[int]().union(*masks)
    source = "the affinity mask" if len(masks) == 1 else f"the affinity masks of {len(masks)} ranks"
    return Sourced(len(union), source) if union else None


def _union_of_gpus(masks: Sequence[Sourced[tuple[str, ...]]]) -> Sourced[int] | None:
    return Sourced(len({device for mask in masks for device in mask.value}), masks[0].source) if masks else None


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
