"""`muster launch`: one Ray over all hosts, and a command on its head."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import (
    Interface,
    PortRange,
    RunsDir,
    parse_address,
    parse_port_range,
    parse_timeout,
)
from muster.environment_variables import HEAD_ADDRESS_VARIABLE, HOSTS_VARIABLE, RUN_DIR_VARIABLE
from muster.runs.folder import runs_dir as folder_of_runs

MOST = 1_000_000


def launch(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND ...", help="What to run on the head.")],
    cpus: Annotated[
        int | None, typer.Option(min=1, max=MOST, help="CPUs of each host; default: as allocated.")
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(min=0, max=MOST, help="GPUs of each host; default: as allocated.")
    ] = None,
    nodes: Annotated[
        int | None, typer.Option(min=1, max=MOST, help="Hosts to wait for; default: as launched.")
    ] = None,
    min_nodes: Annotated[
        int | None,
        typer.Option(min=1, max=MOST, help="Continue with so many hosts when the timeout is over; default: all."),
    ] = None,
    head: Annotated[str | None, typer.Option(help="The head's host; default: that of rank 0.")] = None,
    head_address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            envvar=HEAD_ADDRESS_VARIABLE,
            show_envvar=False,
            help="Where to meet if the hosts share no folder: on the head's host.",
        ),
    ] = None,
    interface: Interface = None,
    port_range: PortRange = None,
    timeout: Annotated[str | None, typer.Option(help="How long to wait for all hosts; default: 5m.")] = None,
    grace: Annotated[
        str | None,
        typer.Option(help="Time from a signal to the end of all; default: as long as the scheduler waits."),
    ] = None,
    launcher: Annotated[
        str | None,
        typer.Option(help="Command that starts the ranks, such as 'srun --mpi=none -N {nodes}'."),
    ] = None,
    container: Annotated[str | None, typer.Option(help="Image to run the ranks in.")] = None,
    runtime: Annotated[
        str | None,
        typer.Option(help="apptainer (default), shifter, podman-hpc, podman or charliecloud, and its own flags."),
    ] = None,
    python: Annotated[str | None, typer.Option(help="Interpreter inside the container; default: python3.")] = None,
    unset: Annotated[list[str] | None, typer.Option(help="Variable to take out, such as LD_PRELOAD.")] = None,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Start Ray's dashboard, on loopback (extra ray).")
    ] = False,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE", help="Take what is not given here from [clusters.NAME] of muster.toml."),
    ] = None,
    runs_dir: RunsDir = None,
) -> None:
    """Bring up one Ray over all hosts of this allocation, run a command on its head, and end everything.

    Started by srun, mpirun or another launcher, the same command on every rank; or alone.
    """
    from muster.clusters.allocation.model import Sourced
    from muster.clusters.allocation.reading import read_allocation
    from muster.clusters.launching.containers import parse_container
    from muster.clusters.launching.launch import launch as run_launch
    from muster.clusters.launching.launch import refuse_where_impossible, require_dashboard
    from muster.clusters.launching.launch_options import DEFAULT_TIMEOUT, LaunchOptions
    from muster.clusters.launching.step_commands import Step, enter_container, start_ranks
    from muster.clusters.named import NamedCluster, find_cluster

    refuse_where_impossible(os.environ)
    site = find_cluster(cluster).cluster if cluster else NamedCluster()
    if dashboard or site.dashboard:
        require_dashboard()
    if site.hosts:
        os.environ.setdefault(HOSTS_VARIABLE, ",".join(site.hosts))
    timeout, grace = timeout or site.timeout, grace or site.grace
    options = LaunchOptions(
        command=command,
        records=Path(os.environ.get(RUN_DIR_VARIABLE) or folder_of_runs(runs_dir)).resolve() / "launches",
        cpus=cpus if cpus is not None else site.cpus or None,
        gpus=gpus if gpus is not None else None if site.gpus is False else site.gpus,
        nodes=nodes,
        min_nodes=min_nodes if min_nodes is not None else site.min_nodes,
        head=head,
        head_address=parse_address(head_address),
        interface=interface or site.interface,
        port_range=parse_port_range(port_range or site.port_range),
        timeout=parse_timeout(timeout) if timeout else DEFAULT_TIMEOUT,
        unset=(*(unset or ()), *site.unset),
        setup=site.setup,
        dashboard=dashboard or site.dashboard,
        grace=parse_timeout(grace, "--grace") if grace else None,
    )
    inside = parse_container(container or site.container, runtime or site.runtime, python or site.python)
    allocation = read_allocation()
    if site.scratch:
        place = Sourced(os.path.expandvars(site.scratch), "[clusters.NAME] scratch")
        allocation = replace(allocation, scratch=place)
    step = Step(options.records, launcher or site.launcher, inside)
    if (code := start_ranks(allocation, step)) is not None:
        raise typer.Exit(code)
    enter_container(allocation, step)
    raise typer.Exit(run_launch(allocation, options))
