"""What this process's own control groups allow it, version 1 and 2, from its group up to the root."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from muster.clusters.allocation.model import Sourced
from muster.clusters.allocation.shares import least

MEMBERSHIP = Path("/proc/self/cgroup")
MOUNT = Path("/sys/fs/cgroup")
_UNLIMITED = 2**60
"""Version 1 writes a limit of about 2**63 bytes where there is none."""
_UNIFIED = ""
_HYBRID_MOUNT = "unified"


@dataclass(frozen=True)
class CgroupLimits:
    """The tightest limits that were found; None where there is none."""

    cpus: Sourced[int] | None = None
    memory: Sourced[int] | None = None


def read_cgroup_limits(membership: Path = MEMBERSHIP, mount: Path = MOUNT) -> CgroupLimits:
    """Return the tightest limits of this process's groups and of all groups around them."""
    try:
        lines = membership.read_text(encoding="utf-8").splitlines()
    except OSError:
        return CgroupLimits()
    cpus: list[Sourced[int]] = []
    memory: list[Sourced[int]] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            for folder in _folders(controller, path, mount):
                cpus += _found(folder, _CPU_READERS.get(controller, {}))
                memory += _found(folder, _MEMORY_READERS.get(controller, {}))
    return CgroupLimits(least(cpus), least(memory))


def peak_memory(limits: CgroupLimits) -> int | None:
    """Return the most bytes that the group with the tightest limit of memory has used; None if there is none."""
    if limits.memory is None:
        return None
    folder = Path(limits.memory.source).parent
    return next((found.value for found in _found(folder, _PEAK_READERS)), None)


def count_cpu_list(written: str) -> int | None:
    """Count the CPUs of a list such as `0-3,8`; None for an empty list, which limits nothing."""
    total = 0
    for part in filter(None, written.strip().split(",")):
        low, _, high = part.partition("-")
        total += int(high or low) - int(low) + 1
    return total or None


def _folders(controller: str, path: str, mount: Path) -> Iterator[Path]:
    """Yield the group's folder and those around it; where the path leads out of our view, the root alone."""
    root = mount / controller if controller != _UNIFIED else mount
    if controller == _UNIFIED and (mount / _HYBRID_MOUNT).is_dir():
        root = mount / _HYBRID_MOUNT
    inside = Path(path.lstrip("/"))
    yield root
    if ".." not in inside.parts:
        for group in [*reversed(inside.parents), inside]:
            if group.parts:
                yield root / group


def _found(folder: Path, readers: dict[str, Callable[[Path], int | None]]) -> Iterator[Sourced[int]]:
    for name, read in readers.items():
        try:
            value = read(folder / name)
        except (OSError, ValueError):
            continue
        if value is not None:
            yield Sourced(value, str(folder / name))


def _read_cpu_max(path: Path) -> int | None:
    quota, period = path.read_text().split()
    return None if quota == "max" else _whole_cpus(int(quota), int(period))


def _read_cfs_quota(path: Path) -> int | None:
    quota, period = int(path.read_text()), int(path.with_name("cpu.cfs_period_us").read_text())
    return None if quota < 0 else _whole_cpus(quota, period)


def _whole_cpus(quota: int, period: int) -> int:
    return max(1, quota // period)


def _read_cpu_list(path: Path) -> int | None:
    return count_cpu_list(path.read_text())


def _read_bytes(path: Path) -> int | None:
    written = path.read_text().strip()
    return None if written == "max" or int(written) >= _UNLIMITED else int(written)


_CPU_READERS: dict[str, dict[str, Callable[[Path], int | None]]] = {
    _UNIFIED: {"cpu.max": _read_cpu_max, "cpuset.cpus.effective": _read_cpu_list},
    "cpu": {"cpu.cfs_quota_us": _read_cfs_quota},
    "cpuset": {"cpuset.effective_cpus": _read_cpu_list, "cpuset.cpus": _read_cpu_list},
}
_MEMORY_READERS: dict[str, dict[str, Callable[[Path], int | None]]] = {
    _UNIFIED: {"memory.max": _read_bytes, "memory.high": _read_bytes},
    "memory": {"memory.limit_in_bytes": _read_bytes},
}
_PEAK_READERS: dict[str, Callable[[Path], int | None]] = {
    "memory.peak": _read_bytes,
    "memory.max_usage_in_bytes": _read_bytes,
}
