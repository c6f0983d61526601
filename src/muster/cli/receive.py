"""`muster receive`: carry out a request that another machine has sent; not for people."""

from __future__ import annotations

import json
import sys

from muster.cli.screen import print_json
from muster.errors import InputError


def receive() -> None:
    """Read a request from standard input, submit it here, and print its jobs."""
    from muster.jobs.delivery import carry_out
    from muster.jobs.places.parcel import unpacked
    from muster.jobs.request import make_plan

    try:
        request = unpacked(json.loads(sys.stdin.buffer.readline()))
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"receive: not a request of muster's: {error}") from None
    plan = make_plan(request)
    print_json({"run": str(plan.job.path), "jobs": carry_out(plan)})
