"""Our share of a host is the least of all that limit it."""

from __future__ import annotations

from typing import Any

import pytest

from muster.clusters.allocation.machine import gpu_mask, is_this_machine, this_machine
from muster.clusters.allocation.model import Host, Machine, Sourced
from muster.clusters.allocation.shares import least, own_share, share_of

SLURM = Sourced(8, "SLURM_CPUS_ON_NODE")
CGROUP = Sourced(4, "cpu.max")


def cpus_of_host(masks: list[frozenset[int]], granted: Sourced[int] | None, cgroup: Sourced[int] | None) -> Any:
    return share_of(Host("n", granted), Machine("n", cpus=64, gpus=8, cgroup_cpus=cgroup), masks, []).cpus


def test_masks_of_ranks_that_are_pinned_apart_add_up() -> None:
    masks = [frozenset({0}), frozenset({1}), frozenset({1, 2})]
    assert cpus_of_host(masks, SLURM, None) == Sourced(3, "the affinity masks of 3 ranks")


def test_the_least_limit_wins_and_is_named() -> None:
    mask = frozenset(range(6))
    assert cpus_of_host([mask], SLURM, CGROUP) == CGROUP
    assert cpus_of_host([mask], SLURM, None) == Sourced(6, "the affinity mask")
    assert cpus_of_host([mask], Sourced(1, "NCPUS"), CGROUP) == Sourced(1, "NCPUS")
    assert cpus_of_host([], Sourced(128, "NCPUS"), None) == Sourced(64, "this machine")
    assert share_of(None, Machine("n", cpus=64, gpus=0), [], []).cpus == Sourced(64, "this machine")


def test_of_equal_limits_the_first_is_named() -> None:
    assert least([None, Sourced(4, "a"), Sourced(4, "b")]) == Sourced(4, "a")


def test_gpu_masks_of_ranks_add_up_within_what_the_scheduler_gave() -> None:
    devices: list[tuple[str, ...]] = [("0",), ("1", "0")]
    masks = [Sourced(mask, "CUDA_VISIBLE_DEVICES") for mask in devices]
    machine = Machine("n", cpus=64, gpus=8)
    for granted, expected in ((4, Sourced(2, "CUDA_VISIBLE_DEVICES")), (1, Sourced(1, "SLURM_GPUS_ON_NODE"))):
        host = Host("n", gpus=Sourced(granted, "SLURM_GPUS_ON_NODE"))
        assert share_of(host, machine, [], masks).gpus == expected
    assert share_of(Host("n"), machine, [], []).gpus == Sourced(8, "this machine")


@pytest.mark.parametrize(
    ("environ", "devices"),
    [
        ({}, None),
        ({"CUDA_VISIBLE_DEVICES": ""}, ()),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, ()),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, ()),
        ({"CUDA_VISIBLE_DEVICES": "GPU-8a, GPU-9b"}, ("GPU-8a", "GPU-9b")),
        ({"ROCR_VISIBLE_DEVICES": "2,3"}, ("2", "3")),
        ({"ZE_AFFINITY_MASK": "0.0,0.1,1.0"}, ("0.0", "0.1", "1.0")),
    ],
)
def test_gpu_masks_of_all_makers(environ: dict[str, str], devices: tuple[str, ...] | None) -> None:
    mask = gpu_mask(environ)
    assert (mask.value if mask else None) == devices


def test_memory_is_the_least_of_scheduler_cgroup_and_machine() -> None:
    machine = Machine("n", cpus=64, gpus=0, memory=100, cgroup_memory=Sourced(60, "memory.max"))
    assert own_share(Host("n", memory=Sourced(80, "SLURM_MEM_PER_NODE")), machine, None).memory == Sourced(
        60, "memory.max"
    )
    assert own_share(Host("n", memory=Sourced(50, "SLURM_MEM_PER_NODE")), machine, None).memory == Sourced(
        50, "SLURM_MEM_PER_NODE"
    )
    assert own_share(Host("n"), Machine("n", cpus=64, gpus=0, memory=100), None).memory == Sourced(
        100, "this machine"
    )


def test_this_machine_tells_something_sensible() -> None:
    machine = this_machine()
    assert machine.cpus >= 1
    assert machine.memory is None or machine.memory > 2**20
    assert machine.affinity is None or 1 <= len(machine.affinity) <= machine.cpus


def test_this_machine_is_known_by_its_addresses() -> None:
    assert is_this_machine("127.0.0.1")
    assert not is_this_machine("192.0.2.77")
