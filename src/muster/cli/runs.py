"""`muster runs`: list the runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from muster.cli.options import AsJson, RunsDir
from muster.cli.screen import console, figure, print_json
from muster.errors import InputError
from muster.experiment.quantities import format_duration
from muster.runs.finding import list_runs
from muster.runs.folder import runs_dir as folder_of_runs
from muster.runs.groups import find_group
from muster.runs.reading import RunRecord, printable, read_state
from muster.runs.summary import short_simulator, summarize

_LONGEST_NAME, _FOLDED = 16, 11
"""Widths to which names of runs and simulators are folded in a narrow terminal."""
_WIDE = 100


def runs(
    folder: Annotated[
        str | None,
        typer.Argument(metavar="[FOLDER]", help="A sweep, or a folder of several seeds; default: all runs."),
    ] = None,
    runs_dir: RunsDir = None,
    as_json: AsJson = False,
) -> None:
    """List the runs, the newest first."""
    directory = folder_of_runs(runs_dir)
    if folder is not None:
        if (group := find_group(folder, directory)) is None:
            raise InputError(f"{folder}: is no sweep and no folder of several seeds in {directory}")
        directory = group.path
    found = [read_state(folder) for folder in list_runs(directory)]
    if as_json:
        print_json([_as_json(record) for record in found])
        return
    if not found:
        print(f"no runs in {directory}; start one: muster train CartPole-v1")
        return
    screen = console()
    screen.print(_table(found, directory, screen.width), soft_wrap=False)
    for record in found:
        for problem in record.problems:
            console().print(f"{printable(record.folder.name)}: {problem}")


def _table(found: Sequence[RunRecord], directory: Path, width: int) -> Table:
    """Return the runs as a table; in a narrow terminal, names are folded."""
    names = [printable(str(record.folder.path.relative_to(directory))) for record in found]
    table = Table(box=None, pad_edge=False)
    table.add_column("run", overflow="fold", min_width=min(_LONGEST_NAME, max(map(len, names))))
    table.add_column("state", no_wrap=True, min_width=max(len(record.status.shown_state) for record in found))
    table.add_column("simulator", overflow="fold", max_width=_FOLDED if width < _WIDE else None)
    table.add_column("algorithm", no_wrap=True, min_width=len("algorithm"))
    for heading in ("steps", "return", "time", "ago"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, record in zip(names, found, strict=True):
        status, summary = record.status, summarize(record.folder)
        table.add_row(
            name,
            status.shown_state,
            printable(short_simulator(summary.simulator)) if summary.simulator else "-",
            printable(summary.algorithm or "-"),
            f"{status.steps:,}",
            figure(status.return_mean),
            "-" if summary.seconds is None else format_duration(summary.seconds),
            _ago(time.time() - status.updated) if status.updated else "-",
        )
    for column in table.columns[-4:]:
        column.min_width = max(len(str(cell)) for cell in (column.header, *column.cells))
    return table


def _ago(seconds: float) -> str:
    """Write how long ago something was, in its largest unit."""
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f}{unit}"
    return f"{max(0.0, seconds):.0f}s"


def _as_json(record: RunRecord) -> dict[str, object]:
    status = {**asdict(record.status), "state": record.status.shown_state, "run": str(record.folder.path)}
    return {**status, **asdict(summarize(record.folder)), "problems": record.problems}
