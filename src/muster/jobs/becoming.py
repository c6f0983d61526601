"""Being a job of a Ray that exists: the process that Ray has started for it runs the job's script."""

from __future__ import annotations

import json
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from muster.environment_variables import SHIPPED_CODE_VARIABLE
from muster.files.regular import is_folder
from muster.jobs.detached import become
from muster.jobs.folder import JobFolder
from muster.jobs.places.ray_agent import ANSWER
from muster.jobs.script import PYTHON
from muster.jobs.submission_plan import Plan


def with_this_python(plan: Plan) -> Plan:
    """Return a plan that runs this interpreter: Ray may have made another environment since it was written."""
    now, before = PYTHON[0], _interpreter_of(plan.script)
    folders = [shlex.quote(str(Path(python).parent)) for python in (before, now)]
    script = plan.script.replace(f"export PATH={folders[0]}", f"export PATH={folders[1]}")
    command = [now if word == before else word for word in plan.order.command]
    return replace(
        plan,
        order=replace(plan.order, command=command),
        script=script.replace(f"exec {shlex.quote(before)} ", f"exec {shlex.quote(now)} "),
    )


def _interpreter_of(script: str) -> str:
    """Return the interpreter whose muster a job script ends with."""
    return shlex.split(script.splitlines()[-1])[1]


def become_job(job: JobFolder, job_id: str) -> NoReturn:
    """Tell whoever sent the run that it begins, and run its script; its output goes to a file beside that."""
    output = job.folder / f"ray-{job_id}.out"
    print(
        f"{ANSWER}{json.dumps({'run': str(job.path), 'jobs': [job_id]})}\nmuster: output in {output}", flush=True
    )
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(descriptor, stream.fileno())
    if is_folder(job.code):
        os.environ[SHIPPED_CODE_VARIABLE] = str(job.code)
    os.chdir(job.folder)
    become(str(job.script), job_id)
