"""What this machine and its kernel allow this process."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

from muster.clusters.allocation.cgroups import read_cgroup_limits
from muster.clusters.allocation.model import Machine, Sourced
from muster.clusters.allocation.variables import Environment

GPU_MASKS = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
_NO_DEVICE = {"", "-1", "NoDevFiles", "void", "none"}
_NVIDIA_DEVICE = re.compile(r"nvidia\d+")
_AMD_DEVICES = Path("/sys/class/kfd/kfd/topology/nodes")


def this_machine() -> Machine:
    """Ask this machine and its kernel."""
    limits = read_cgroup_limits()
    affinity = frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return Machine(
        socket.gethostname(), os.cpu_count() or 1, _gpus(), _memory(), affinity, limits.cpus, limits.memory
    )


def gpu_mask(environ: Environment) -> Sourced[tuple[str, ...]] | None:
    """Return the devices that a mask variable lets this process see; None if there is no mask.

    A mask that is set but empty hides every device.
    """
    for name in GPU_MASKS:
        if name in environ:
            devices = [device.strip() for device in environ[name].split(",")]
            visible = tuple(device for device in devices if device not in _NO_DEVICE)
            return Sourced(visible, name)
    return None


def is_this_machine(name: str) -> bool:
    """Whether a name or address is one of this machine's: only to such an address can one bind."""
    try:
        addresses = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in addresses:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind(address)
                return True
        except OSError:
            continue
    return False


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def _gpus() -> int:
    try:
        nvidia = sum(_NVIDIA_DEVICE.fullmatch(path.name) is not None for path in Path("/dev").iterdir())
    except OSError:
        nvidia = 0
    return nvidia + sum(_is_amd_gpu(node) for node in _AMD_DEVICES.glob("*/gpu_id"))


def _is_amd_gpu(node: Path) -> bool:
    """CPUs are nodes of this list too, with the id 0."""
    try:
        return node.read_text().strip() not in ("", "0")
    except OSError:
        return False
