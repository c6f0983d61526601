"""`muster allocation`: show the hosts, CPUs, GPUs, memory and end time that a scheduler gave us."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.table import Table

from muster.cli.screen import console, print_json
from muster.clusters.allocation.model import Allocation, Host, Sourced
from muster.clusters.allocation.reading import read_allocation

GIBIBYTE = 1024**3
UNKNOWN = "unknown"


def allocation(
    as_json: Annotated[bool, typer.Option("--json", help="Print the allocation as a line of JSON.")] = False,
) -> None:
    """Show the hosts, CPUs, GPUs, memory and end time that a scheduler gave us, each with its source."""
    found = read_allocation()
    if as_json:
        print_json(_as_json(found))
    else:
        _show(found)


def _as_json(found: Allocation) -> dict[str, Any]:
    affinity = found.machine.affinity
    values = asdict(found)
    values["in_step"] = found.in_step
    values["machine"]["affinity"] = None if affinity is None else sorted(affinity)
    return values


def _show(found: Allocation) -> None:
    table = Table(box=None, pad_edge=False)
    for heading in ("", "value", "source"):
        table.add_column(heading, style="cyan" if not heading else None, overflow="fold")
    for name, value, source in (*_rows(found), *_host_rows(found)):
        table.add_row(name, value, source)
    console().print(table)
    for doubt in found.doubts:
        console(stderr=True).print(f"note: {doubt}", style="yellow")


def _rows(found: Allocation) -> Iterator[tuple[str, str, str]]:
    yield _row("scheduler", found.scheduler)
    yield _row("job", found.job_id)
    if found.ranks is None:
        yield "step", "not inside a parallel step", ""
    else:
        yield _row("launcher", found.ranks.launcher)
        yield _row("rank", found.ranks.rank)
        yield _row("ranks", found.ranks.num_ranks)
        yield _row("local rank", found.ranks.local_rank)
        yield _row("ranks on this host", found.ranks.num_local_ranks)
        yield _row("step", found.ranks.step_id)
    yield _row("ranks per host", found.ranks_per_host)
    yield _row("launch id", found.launch_id)
    end = found.end_time
    yield _row("end", Sourced(datetime.fromtimestamp(end.value).strftime("%F %T"), end.source) if end else None)
    yield _row("grace", Sourced(f"{found.grace.value:g} s", found.grace.source))
    yield _row("scratch", found.scratch)
    yield _row("this host", found.host_index) if found.host_index else ("this host", "not part of it", "")


def _host_rows(found: Allocation) -> Iterator[tuple[str, str, str]]:
    count = f"{len(found.hosts.value)}" + ("" if found.knows_all_hosts else " known of more")
    yield "hosts", count, found.hosts.source
    for index, host in enumerate(found.hosts.value):
        mark = " (this host)" if found.host_index and index == found.host_index.value else ""
        shares = list(_shares(host))
        yield f"  {index}", host.name + mark, ""
        for name, share in shares:
            yield _row(f"    {name}", share)


def _shares(host: Host) -> Iterator[tuple[str, Sourced[Any] | None]]:
    memory = host.memory
    yield "CPUs", host.cpus
    yield "GPUs", host.gpus
    yield "memory", Sourced(f"{memory.value / GIBIBYTE:.1f} GiB", memory.source) if memory else None


def _row(name: str, found: Sourced[Any] | None) -> tuple[str, str, str]:
    if found is None:
        return name, UNKNOWN, ""
    value = ", ".join(map(str, found.value)) if isinstance(found.value, tuple) else str(found.value)
    return name, value, found.source
