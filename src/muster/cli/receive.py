"""`muster receive`: carry out a request that another machine has sent; not for people."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.screen import print_json
from muster.errors import InputError


def receive(
    parcel: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Read the request from here; the project is beside it.")
    ] = None,
    become: Annotated[bool, typer.Option("--become", help="Be the job: run its script in this process.")] = False,
) -> None:
    """Read a request, submit it here, and print its jobs."""
    from muster.jobs.becoming import become_job, with_this_python
    from muster.jobs.delivery import carry_out
    from muster.jobs.places.parcel import unpacked
    from muster.jobs.request import make_plan

    try:
        text = sys.stdin.buffer.readline() if parcel is None else parcel.read_bytes()
        request = unpacked(json.loads(text), parcel.resolve().parent if parcel else None)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"receive: not a request of muster's: {error}") from None
    plan = make_plan(request)
    if not become:
        print_json({"run": str(plan.job.path), "jobs": carry_out(plan)})
        return
    plan = with_this_python(plan)
    become_job(plan.job, *carry_out(plan))
