"""`muster compare`: runs, or groups of seeds, beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import AsJson, RunsDir, writable_file
from muster.cli.screen import columns, console, figure, print_json, print_text
from muster.runs.folder import runs_dir as folder_of_runs
from muster.runs.reading import printable

_FOLDABLE = {0: 8}
"""How narrow the names of groups may become in a narrow terminal."""


def compare(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="Runs, folders of several seeds, or sweeps.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write a page (.html), picture (.png, .pdf, .svg) or table (.csv)."),
    ] = None,
    runs_dir: RunsDir = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs: final returns with intervals over seeds, efficiency, and what differs between them.

    The first is what the others are compared with. Of a sweep, its best trial is taken.
    """
    if output is not None:
        from muster.reports.comparison_file import PAGES, PICTURES, TABLES

        writable_file("--output", output, (*PAGES, *PICTURES, *TABLES))

    from muster.reports.comparison import HEADINGS, as_rows
    from muster.reports.comparison import compare as read
    from muster.reports.groups import measure

    comparison = read(runs, folder_of_runs(runs_dir))
    rows = as_rows(comparison)
    if output is not None:
        from muster.reports.comparison_file import write_comparison

        write_comparison(comparison, output)
    if as_json:
        groups = [dict(zip(HEADINGS, row, strict=True)) for row in rows]
        print_json({"groups": groups, "notes": comparison.notes(), "differences": comparison.differences()})
        return
    table = [("group", "runs", "final return", "95 % interval", "better with", "steps to target")]
    for row in rows:
        numbers = [float(cell) if isinstance(cell, int | float) else None for cell in row[2:12]]
        final, low, high, better, *_, steps, _, _ = numbers
        interval = f"{figure(low)} to {figure(high)}" if low is not None else "-"
        chance = "-" if better is None else f"{better:.0%}"
        took = "-" if steps is None else f"{steps:,.0f}"
        table.append((printable(str(row[0])), str(row[1]), figure(final), interval, chance, took))
    print(columns(table, numbers=range(1, 6), foldable=_FOLDABLE))
    if (target := comparison.target()) is not None:
        print(f"the target is a mean training return of {figure(target)}")
    for entry in comparison.entries[1:]:
        print(printable(f"{entry.name}: {comparison.verdict(entry)}"))
    if differences := comparison.differences():
        print("what differs:")
    for key, values in differences.items():
        print_text(console(), printable(f"  {key}: {' | '.join(values)}"))
    for note in (*comparison.notes(), measure(comparison.by_evaluations)):
        print(printable(note))
    if output is not None:
        print(f"wrote {output}")
