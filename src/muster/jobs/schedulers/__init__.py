"""The schedulers that jobs can be submitted to, each mostly data."""

from __future__ import annotations

from muster.jobs.schedulers import cobalt, flux, local, lsf, pbs, sge, slurm
from muster.jobs.schedulers.model import Scheduler

SCHEDULERS: dict[str, Scheduler] = {
    module.SCHEDULER.name: module.SCHEDULER for module in (slurm, pbs, cobalt, lsf, sge, flux, local)
} | {scheduler.name: scheduler for scheduler in (local.SSH_SCHEDULER, local.RAY_SCHEDULER)}
