"""`muster plot`: columns of a run's metrics, in the terminal or as a picture."""

from __future__ import annotations

import difflib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.options import Run, RunsDir, writable_file
from muster.errors import InputError
from muster.runs.folder import runs_dir as folder_of_runs
from muster.runs.reading import printable

if TYPE_CHECKING:
    from muster.reports.history import RunHistory

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
    """Draw columns of a run's metrics over its steps, in the terminal or as a picture."""
    if output is not None:
        writable_file("--output", output, PICTURES)

    from muster.reports.history import read_history
    from muster.runs.finding import find_run

    history = read_history(find_run(run, folder_of_runs(runs_dir)))
    wanted = columns or [DEFAULT]
    _require_known(wanted, history)
    if output is not None:
        from muster.reports.pictures import draw_columns
        from muster.runs.files import explained

        with explained(output):
            draw_columns(history, wanted, output)
        print(f"wrote {output}")
        return

    from muster.reports.terminal_plot import plot_lines

    width = shutil.get_terminal_size().columns
    for column in wanted:
        print(printable(f"{column} of {history.folder.name} over simulator steps"))
        print("\n".join(plot_lines(history.column("steps"), history.column(column), width, HEIGHT)))


def _require_known(wanted: list[str], history: RunHistory) -> None:
    known = history.record.rows.columns
    if not known:
        reasons = "; ".join(history.problems) or "no iteration is recorded yet"
        raise InputError(f"{history.folder.path}: nothing to draw: {reasons}")
    for column in wanted:
        if column not in known:
            near = difflib.get_close_matches(column, known, n=3, cutoff=0.4) or known
            raise InputError(f"no column {column!r} in {history.folder.metrics}\n    there are: {', '.join(near)}")
