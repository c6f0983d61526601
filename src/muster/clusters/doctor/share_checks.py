"""How much of this host is ours: what machine, affinity, cgroup and scheduler say, and whether it fits."""

from __future__ import annotations

from collections.abc import Sequence

from muster.clusters.allocation.model import Allocation, Machine, Sourced
from muster.clusters.doctor.findings import HostFinding, problem, warning, well

CPUS, MEMORY, ALLOCATION = "CPUs", "memory", "allocation"
GIB = 1024**3
LEAST_MEMORY = GIB


def check_cpus(
    machine: Machine, granted: Sourced[int] | None, share: Sourced[int], masks: Sequence[frozenset[int]]
) -> HostFinding:
    """Judge whether what the scheduler grants is really ours. The masks are those of the host's ranks."""
    pinned = len(frozenset[int]().union(*masks)) if masks else machine.cpus
    if granted is not None and machine.cpus < granted.value:
        return warning(
            CPUS,
            f"the scheduler grants {granted}, but this machine has {machine.cpus}",
            f"muster uses {share.value}; tell your site that its scheduler is set up wrongly",
        )
    if granted is not None and pinned < granted.value:
        return warning(
            CPUS,
            f"the scheduler grants {granted}, but the launcher lets its ranks run on {pinned} only",
            "let each rank have all CPUs: srun --cpu-bind=none --cpus-per-task=N, mpirun --bind-to none",
        )
    return well(CPUS, f"{share.value} of {machine.cpus} (from {share.source})")


def check_memory(share: Sourced[int] | None) -> HostFinding:
    """Judge whether our share of the memory is enough."""
    if share is None:
        remedy = "ask for memory when you submit, such as --mem=8G"
        return warning(MEMORY, "nothing tells how much there is", remedy)
    message = f"{share.value / GIB:.0f} GiB (from {share.source})"
    if share.value >= LEAST_MEMORY:
        return well(MEMORY, message)
    return problem(
        MEMORY,
        f"{share.value / GIB:.2f} GiB (from {share.source}): Ray alone needs {LEAST_MEMORY // GIB} GiB",
        "ask the scheduler for more: sbatch --mem=8G, qsub -l select=1:mem=8gb",
    )


def check_doubts(allocation: Allocation) -> list[HostFinding]:
    """Pass on what does not fit together in what scheduler and launcher say.

    It is a problem if the launcher speaks of a single rank: then each of many is alone in a world of its own.
    """
    ranks = allocation.ranks
    judge = problem if ranks and ranks.num_ranks and ranks.num_ranks.value == 1 else warning
    remedy = "start the ranks with the launcher that belongs to the scheduler, such as srun, or its own mpirun"
    found = [judge(ALLOCATION, doubt, remedy) for doubt in allocation.doubts]
    return found or [well(ALLOCATION, "scheduler and launcher agree")]
