"""The control groups that Slurm makes for its jobs: they are the machine's, so a lab must take them away."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

FREEZER = Path("/sys/fs/cgroup/freezer")


def can_track_jobs() -> bool:
    """Whether Slurm can hold a job's processes in a control group, and so end those that a job leaves behind.

    It needs version 1 of control groups; with version 2 this Slurm wants systemd.
    """
    return (FREEZER / "release_agent").exists()


def remove_job_groups(nodes: Iterable[str]) -> None:
    """Remove the groups of these nodes that are empty; one still in use belongs to another lab and stays."""
    for node in nodes:
        for folder, _, _ in os.walk(FREEZER / f"slurm_{node}", topdown=False):
            with suppress(OSError):
                Path(folder).rmdir()
