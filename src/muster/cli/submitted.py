"""What `muster submit` shows of a run that was submitted, here or elsewhere, and sending it elsewhere."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from muster.cli.screen import console, print_json, show_notice
from muster.experiment.quantities import counted
from muster.runs.folder import runs_dir as folder_of_runs

if TYPE_CHECKING:
    from muster.jobs.request import Request
    from muster.jobs.submission_plan import Plan


def _is_ray(request: Request) -> bool:
    from muster.clusters.named import RAY

    return request.options.cluster.cluster.scheduler == RAY


def show_shipment(request: Request) -> None:
    """Show what would be sent to hosts that are reached by ssh, or to a Ray that exists."""
    from muster.jobs.places.ray_submitting import plan_ray_shipment
    from muster.jobs.places.shipment import plan_shipment

    shipment = (plan_ray_shipment if _is_ray(request) else plan_shipment)(request, show_notice)
    wanted, screen = shipment.wanted, console()
    screen.print(f"to {', '.join(shipment.hosts)}, into {wanted.folder}:")
    if wanted.project is not None:
        size = f"{counted(len(wanted.project.files), 'file')}, {wanted.project.size / 1024**2:.1f} MiB"
        screen.print(f"  the project {wanted.project.root} ({size}), as far as it has changed")
    if wanted.cluster.environment:
        screen.print(f"  this muster, over the packages of {wanted.cluster.environment}")
    else:
        screen.print("  this muster, and an environment of these requirements:")
        for line in wanted.requirements.lines:
            screen.print(f"    {line}")
    screen.print("nothing was sent")


def send(request: Request, *, as_json: bool) -> None:
    """Submit a run to hosts that are reached by ssh, or to a Ray that exists."""
    from muster.jobs.places.ray_submitting import submit_to_ray
    from muster.jobs.places.submitting import submit_by_ssh

    sent = (submit_to_ray if _is_ray(request) else submit_by_ssh)(request, show_notice)
    for reason in sent.failures.values():
        show_notice(f"without {reason}")
    record = sent.record
    if as_json:
        hosts = list(record.hosts)
        print_json({"run": str(sent.path), "scheduler": record.scheduler, "jobs": sent.jobs, "hosts": hosts})
        return
    where = ", ".join(record.hosts)
    console().print(f"submitted to {record.cluster} ({where}): run folder {sent.path}")
    _show_next(sent.path, f"/{sent.member}" if sent.member else "", is_elsewhere=True)


def show_submitted(plan: Plan, jobs: list[str]) -> None:
    """Show the jobs of a run that was submitted here."""
    screen = console()
    what = f"job {jobs[0]}" if len(jobs) == 1 else counted(len(jobs), "job") + f", {jobs[0]} first"
    path = plan.job.path
    screen.print(f"submitted {what} to {plan.order.scheduler}: run folder {path}")
    _show_next(path, f"/{plan.members[0].job.path.name}" if plan.members else "")


def _show_next(path: Path, member: str = "", *, is_elsewhere: bool = False) -> None:
    """Show the commands that a person is likely to want now."""
    screen = console()
    name = shlex.quote(path.name if path.parent == folder_of_runs().resolve() else str(path))
    screen.print(f"\n  muster status {name}")
    screen.print(f"  muster logs -f {name}{member}")
    if is_elsewhere:
        screen.print(f"  muster fetch {name}    # results, also while it runs")
    screen.print(f"  muster cancel {name}   # saves first")
