"""`muster launch`: one Ray over all hosts, and a command on its head."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import RunsDir
from muster.errors import InputError
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
    interface: Annotated[str | None, typer.Option(help="Network to use: an interface or a subnet.")] = None,
    port_range: Annotated[str | None, typer.Option(help="Ports to choose from, LOW-HIGH.")] = None,
    timeout: Annotated[str, typer.Option(help="How long to wait for all hosts.")] = "5m",
    unset: Annotated[list[str] | None, typer.Option(help="Variable to take out, such as LD_PRELOAD.")] = None,
    dashboard: Annotated[bool, typer.Option("--dashboard", help="Start Ray's dashboard, on loopback.")] = False,
    runs_dir: RunsDir = None,
) -> None:
    """Bring up one Ray over all hosts of this allocation, run a command on its head, and end everything.

    Started by srun, mpirun or another launcher, the same command on every rank; or alone.
    """
    from muster.clusters.allocation.reading import read_allocation
    from muster.clusters.launching.launch import Launch
    from muster.clusters.launching.options import LaunchOptions
    from muster.clusters.launching.starting import identify, start_ranks
    from muster.experiment.quantities import parse_duration

    try:
        seconds = float(str(parse_duration(timeout)))
    except ValueError as error:
        raise InputError(f"--timeout {timeout}: {error}") from None
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
        port_range=_range(port_range),
        timeout=seconds,
        unset=unset or (),
        dashboard=dashboard,
    )
    launch_id = identify(allocation) if allocation.in_step else f"alone-{secrets.token_hex(4)}"
    raise typer.Exit(Launch(allocation, options, launch_id).run())


def _range(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    low, _, high = text.partition("-")
    if not (low.isdigit() and high.isdigit() and 1024 <= int(low) < int(high) <= 65535):
        raise InputError(f"--port-range {text}: expected LOW-HIGH between 1024 and 65535, such as 20000-24000")
    return int(low), int(high)
