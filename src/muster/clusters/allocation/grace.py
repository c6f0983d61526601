"""How long a scheduler waits after TERM before it kills a job, and what a command has of it."""

from __future__ import annotations

from muster.clusters.allocation.model import Sourced

USUAL = Sourced(30.0, "default")
SCHEDULERS = {
    "slurm": Sourced(30.0, "KillWait of Slurm, by default"),
    "pbs": Sourced(10.0, "kill_delay of PBS, by default"),
    "flux": Sourced(5.0, "kill-timeout of Flux, by default"),
    "lsf": Sourced(10.0, "JOB_TERMINATE_INTERVAL of LSF, by default"),
}
LARGEST_RESERVE, RESERVE_SHARE = 3.0, 0.4


def grace_of(scheduler: str) -> Sourced[float]:
    """Return the seconds between TERM and KILL."""
    return SCHEDULERS.get(scheduler, USUAL)


def grace_of_command(grace: float) -> float:
    """Return what a command may take of a grace period: the rest is for the end of Ray and its folders."""
    return grace - min(LARGEST_RESERVE, RESERVE_SHARE * grace)
