"""How many CPUs this process may really use."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUP_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def usable_cpus() -> int:
    """Return the least of what the machine has, the affinity mask allows and the cgroup's quota gives."""
    counts = [os.cpu_count() or 1]
    if hasattr(os, "sched_getaffinity"):
        counts.append(len(os.sched_getaffinity(0)))
    if (quota := _cgroup_quota()) is not None:
        counts.append(quota)
    return max(1, min(counts))


def _cgroup_quota() -> int | None:
    try:
        quota, period = _CGROUP_QUOTA.read_text().split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else int(quota) // int(period)
