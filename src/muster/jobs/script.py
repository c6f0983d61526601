"""The job script: directives, the end of the wall time, the site's setup, and one link of the chain."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from muster.environment_variables import END_TIME_VARIABLE
from muster.jobs.schedulers.model import Job, Scheduler

PYTHON = [sys.executable, "-P", "-m", "muster"]
"""How this very muster is run on another host; the current folder is no place to import from."""


@dataclass(frozen=True)
class Script:
    """What a job script is made of."""

    job: Job
    run: Path
    """The run's folder; for an array the folder of its runs."""
    folder: Path
    """Where the job runs: the folder that it was submitted from."""
    command: list[str]
    """What it runs, for people to read."""
    search_path: list[str]
    first_seed: int = 0
    """Of an array: each task is the run `seed-N` in the folder."""
    programs: str | None = None
    """Folder to put before others on PATH."""


def render(script: Script, scheduler: Scheduler) -> str:
    """Return the text of the job script."""
    cluster = script.job.cluster
    login_shell = scheduler.login_shell if cluster.login_shell is None else cluster.login_shell
    lines = ["#!/bin/bash -l" if login_shell else "#!/bin/bash"]
    if scheduler.prefix is not None:
        lines += [f"{scheduler.prefix} {directive}" for directive in job_directives(script.job, scheduler)]
    lines += ["", *_end_time(script, scheduler), f"cd {shlex.quote(str(script.folder))} || exit 1"]
    if cluster.unset:
        lines.append(f"unset {' '.join(map(shlex.quote, cluster.unset))}")
    lines += cluster.setup
    lines += ["export PYTHONUNBUFFERED=1"]
    if script.programs:
        lines.append(f'export PATH={shlex.quote(script.programs)}"${{PATH:+:$PATH}}"')
    if script.search_path:
        joined = shlex.quote(":".join(script.search_path))
        lines.append(f'export PYTHONPATH={joined}"${{PYTHONPATH:+:$PYTHONPATH}}"')
    lines += ["", f"# Runs: {_in_a_line(script.command)}", *_last_lines(script, scheduler)]
    return "\n".join(lines) + "\n"


def job_directives(job: Job, scheduler: Scheduler) -> list[str]:
    """Return the directives of a job, the cluster's own last."""
    return [directive for directive in scheduler.directives(job) if directive] + list(job.cluster.directives)


def _end_time(script: Script, scheduler: Scheduler) -> list[str]:
    """Set the end of the wall time before anything else takes time."""
    wall_time = script.job.cluster.wall_time
    if not wall_time:
        return []
    step = scheduler.seconds_of_limit
    counted = f"$(( $(date +%s) + {max(step, int(wall_time) // step * step)} ))"
    end_time = f"${{{scheduler.end_time}:-{counted}}}" if scheduler.end_time else counted
    return [f"export {END_TIME_VARIABLE}={end_time}"]


def _last_lines(script: Script, scheduler: Scheduler) -> list[str]:
    """Become a link of the run's chain; a task of an array writes its output into its own run's folder."""
    link, run = f"exec {shlex.join(PYTHON)} link", shlex.quote(str(script.run))
    if script.job.num_tasks is None:
        return [f"{link} {run}"]
    return [
        f"run={run}/seed-$(( {script.first_seed} + {scheduler.array_variable} - 1 ))",
        f'{link} "$run" >> "$run/job/{scheduler.name}-${scheduler.job_variable}.out" 2>&1',
    ]


def _in_a_line(command: list[str]) -> str:
    return shlex.join(command).replace(shlex.join(PYTHON), "muster").replace("\n", " ")
