"""`muster launch`: one Ray over all hosts, and a command on its head."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import Interface, PortRange, RunsDir, parse_port_range, parse_timeout
from muster.runs.folder import runs_dir as folder_of_runs


def launch(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND ...", help="What to run on the head.")],
    cpus: Annotated[int | None, typer.Option(min=1, help="CPUs of each host; default: as allocated.")] = None,
    gpus: Annotated[int | None, typer.Option(min=0, help="GPUs of each host; default: as allocated.")] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="Ranks to wait for; default: as launched.")] = None,
    min_nodes: Annotated[
        int | None, typer.Option(min=1, help="Go on with so many hosts when the timeout is over.")
    ] = None,
    head: Annotated[str | None, typer.Option(help="The head's host; default: that of rank 0.")] = None,
    interface: Interface = None,
    port_range: PortRange = None,
    timeout: Annotated[str, typer.Option(help="How long to wait for all hosts.")] = "5m",
    unset: Annotated[list[str] | None, typer.Option(help="Variable to take out, such as LD_PRELOAD.")] = None,
    dashboard: Annotated[bool, typer.Option("--dashboard", help="Start Ray's dashboard, on loopback.")] = False,
    runs_dir: RunsDir = None,
) -> None:
    """Bring up one Ray over all hosts of this allocation, run a command on its head, and end everything.

    Started by srun, mpirun or another launcher, the same command on every rank; or alone.
    """
    from muster.clusters.allocation.reading import read_allocation
    from muster.clusters.launching.launch import launch as run_launch
    from muster.clusters.launching.options import LaunchOptions
    from muster.clusters.launching.starting import identify, start_ranks

    seconds = parse_timeout(timeout)
    allocation = read_allocation()
    if (code := start_ranks(allocation)) is not None:
        raise typer.Exit(code)
    options = LaunchOptions(
        command=command,
        records=Path(os.environ.get("MUSTER_RUN_DIR") or folder_of_runs(runs_dir)).resolve() / "launches",
        cpus=cpus,
        gpus=gpus,
        nodes=nodes,
        min_nodes=min_nodes,
        head=head,
        interface=interface,
        port_range=parse_port_range(port_range),
        timeout=seconds,
        unset=unset or (),
        dashboard=dashboard,
    )
    launch_id = identify(allocation) if allocation.in_step else f"alone-{secrets.token_hex(4)}"
    raise typer.Exit(run_launch(allocation, options, launch_id))
