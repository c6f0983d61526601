"""`muster plot`: columns of a run's metrics, in the terminal or as a picture."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import Run, RunsDir, writable_file
from muster.runs.folder import runs_dir as folder_of_runs
from muster.runs.reading import printable

DEFAULT = "return/mean"
HEIGHT = 14
PICTURES = (".png", ".pdf", ".svg")


def plot(
    run: Run,
    columns: Annotated[
        list[str] | None,
        typer.Argument(metavar="COLUMN", help="Columns of metrics.csv; default: return/mean."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write a picture (.png, .pdf, .svg) instead.")
    ] = None,
    runs_dir: RunsDir = None,
) -> None:
    """Draw columns of a run's metrics over its steps, in the terminal or as a picture.

    Of several seeds, the interquartile mean is drawn; of a sweep, its best trial.
    """
    if output is not None:
        writable_file("--output", output, PICTURES)

    from muster.reports.columns import lines_of
    from muster.reports.comparison import best_trial
    from muster.reports.groups import SWEEP, find_group

    group = find_group(run, folder_of_runs(runs_dir))
    if group.kind == SWEEP:
        group = best_trial(group)
    title = group.runs[0].folder.name
    if len(group.runs) > 1:
        title = f"{group.name} (interquartile mean of {len(group.runs)} runs)"
    lines = lines_of(group.runs, columns or [DEFAULT])
    if output is not None:
        from muster.reports.pictures import draw_columns, save

        save(draw_columns(title, lines), output)
        print(f"wrote {output}")
        return

    from muster.reports.terminal_plot import plot_lines

    width = shutil.get_terminal_size().columns
    for column, (steps, values) in lines.items():
        print(printable(f"{column} of {title} over simulator steps"))
        print("\n".join(plot_lines(steps, values, width, HEIGHT)))
