"""`muster clusters`: where jobs can be sent, and how to describe a new place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from muster.cli.options import AsJson
from muster.cli.screen import console, print_json

clusters = typer.Typer(
    help="List, show and describe the clusters that jobs can be sent to.",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@clusters.callback()
def list_all(context: typer.Context, as_json: AsJson = False) -> None:
    """List the clusters that jobs can be sent to, and where each is described."""
    if context.invoked_subcommand is not None:
        return
    from muster.clusters.named import SCHEDULERS, list_clusters

    found = list_clusters()
    if as_json:
        print_json([{"name": one.name, "scheduler": one.cluster.scheduler, "source": one.source} for one in found])
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("cluster", "scheduler", "described in"):
        table.add_column(heading, overflow="fold")
    for one in found:
        table.add_row(one.name, one.cluster.scheduler or ("ssh" if one.cluster.hosts else "-"), one.source)
    console().print(table)
    console().print(f"\nor a scheduler with flags: {', '.join(SCHEDULERS)}; or a Ray: ray:ADDRESS")


@clusters.command()
def show(name: Annotated[str, typer.Argument(help="A cluster's name.")]) -> None:
    """Show one cluster, as a table for muster.toml."""
    from muster.clusters.named import find_cluster

    found = find_cluster(name, "clusters show")
    print(f"# from {found.source}")
    print(found.cluster.as_file(found.name), end="")


@clusters.command()
def init(
    name: Annotated[
        str | None,
        typer.Argument(help="aws, gcp or kuberay; or the name of a cluster, default: that of this host."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File to write; default: print it.")
    ] = None,
) -> None:
    """Write a commented file that starts a Ray on a cloud, or a table of this login node's scheduler."""
    from muster.clusters.cloud_files import CLOUDS, cloud_file

    if name in CLOUDS:
        text = cloud_file(name, str(output) if output else None)
        start = "kubectl apply -f" if name == "kuberay" else "ray up"
        _write(
            text, output, "choose another file with -o", f"its first lines say how to use it; `{start} {output}`"
        )
        return
    from muster.jobs.describing import describe_here

    text = describe_here(name)
    shown = f"`muster submit exp.toml --on {name or 'NAME'} --dry-run` shows a job"
    _write(text, output, "print without -o, and add the table yourself", shown)


def _write(text: str, output: Path | None, if_there: str, next_step: str) -> None:
    """Print a text, or write it to a file that must not exist."""
    if output is None:
        print(text, end="")
        return
    from muster.errors import InputError
    from muster.runs.files import explained, write_text

    if output.exists():
        raise InputError(f"{output}: exists already; {if_there}")
    with explained(output, afterwards=""):
        write_text(output, text)
    console().print(f"{output}: written; {next_step}")


@clusters.command()
def clean(
    name: Annotated[str, typer.Argument(help="A cluster whose hosts are reached by ssh.")],
    remote: Annotated[str | None, typer.Option(metavar="USER@LOGIN", help="Its login node.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove runs there without asking.")] = False,
) -> None:
    """Remove what muster has put on a cluster's hosts: runs, copies of projects, environments.

    Fetch the results first. Runs that have not ended are never removed.
    """
    from muster.clusters.named import RAY, find_cluster, with_flags
    from muster.errors import InputError, JobError
    from muster.experiment.quantities import counted
    from muster.jobs.places.cleaning import find_remains, remove_remains

    found = find_cluster(name, "clusters clean")
    if remote is not None:
        found = with_flags(found, {"remote": remote}, f"clusters clean {name}")
    if found.cluster.scheduler == RAY:
        raise InputError(f"clusters clean {name}: only for hosts that are reached by ssh")
    if not found.cluster.is_elsewhere:
        raise InputError(
            f"clusters clean {name}: only for hosts that are reached by ssh\n"
            "    --remote USER@LOGIN names its login node"
        )
    remains, failures = find_remains(found)
    runs = sorted({run for one in remains for run in one.runs})
    if runs and not yes:
        typer.confirm(f"remove {counted(len(runs), 'run')} there ({', '.join(runs)})?", abort=True, err=True)
    removed, failed = remove_remains(remains, found)
    for host in removed:
        console().print(f"{host}: removed")
    if not removed and not failures and not failed:
        console().print(f"{name}: nothing of muster's is there")
    if problems := {**failures, **failed}:
        raise JobError(
            f"clusters clean {name}: not on all hosts" + "".join(f"\n  {text}" for text in problems.values())
        )
