"""A table for a cluster that has none yet, from what its scheduler says on this login node."""

from __future__ import annotations

import json
import re
import socket

from muster.errors import InputError
from muster.experiment.quantities import format_duration
from muster.jobs.commands import UnansweredError, is_here
from muster.jobs.schedulers import SCHEDULERS
from muster.jobs.schedulers.model import Queues, Scheduler

_PROBES = {"slurm": "sbatch", "flux": "flux", "lsf": "bsub", "sge": "qconf", "pbs": "pbsnodes", "cobalt": "qsub"}


def describe_here(name: str | None) -> str:
    """Return a commented table of this login node's scheduler, its queues and their limits.

    Raises:
        InputError: if there is no scheduler here.
    """
    scheduler = _scheduler_here()
    name = name or re.sub(r"[^a-z0-9_-]", "", socket.gethostname().partition(".")[0].lower()) or "here"
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise InputError(f"clusters init {name}: expected a name of letters, digits, - and _")
    lines = [
        f"# {name}: for muster.toml of a project, or ~/.config/muster/clusters.toml.",
        "# Lines that begin with # are suggestions; `key = false` leaves out a directive that the site refuses.",
        f"[clusters.{name}]",
        f'scheduler = "{scheduler.name}"',
    ]
    lines += _queue_lines(name, _queues(scheduler))
    return "\n".join(lines) + "\n"


def _scheduler_here() -> Scheduler:
    for name, program in _PROBES.items():
        if is_here(program):
            return SCHEDULERS[name]
    raise InputError(
        f"clusters init: no scheduler is on PATH here; looked for {', '.join(_PROBES.values())}\n"
        "    run it on a login node of the cluster"
    )


def _queues(scheduler: Scheduler) -> Queues:
    try:
        return scheduler.queues() if scheduler.queues else Queues({})
    except UnansweredError as error:
        raise InputError(f"clusters init: {error}") from None


def _queue_lines(name: str, queues: Queues) -> list[str]:
    default = queues.default or next(iter(queues.limits), None)
    lines = [f"queue = {json.dumps(default)}" if default else '# queue = "..."']
    limits = queues.limits.get(default or "")
    lines.append("nodes = 1")
    if limits and limits.max_cpus:
        lines.append(f"cpus = {limits.max_cpus}  # of each host; without it, whole hosts")
    longest = limits.max_wall_time if limits else None
    lines.append(f'wall_time = "{format_duration(min(longest or 3600.0, 3600.0))}"')
    lines += [
        '# account = "..."       # whose allocation is charged',
        '# memory = "16G"        # of each host',
        '# setup = ["module load ..."]',
        '# unset = ["LD_PRELOAD"]',
        '# chain = "ahead"       # where jobs must not submit jobs',
    ]
    for queue, found in queues.limits.items():
        key = queue if re.fullmatch(r"[A-Za-z0-9_-]+", queue) else json.dumps(queue)
        lines += ["", f"[clusters.{name}.queues.{key}]"]
        for field in type(found).model_fields:
            if (value := getattr(found, field)) is not None:
                lines.append(f"{field} = {_written(field, value)}")
    return lines


def _written(field: str, value: float) -> str:
    if field == "max_memory":
        return f'"{int(value) // 1024**2}M"'
    return f'"{format_duration(value)}"' if field == "max_wall_time" else str(value)
