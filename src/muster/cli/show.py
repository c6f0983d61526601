"""`muster show`: one run's state, results, checkpoints and events."""

from __future__ import annotations

from dataclasses import asdict

from rich.table import Table

from muster.cli.group_views import show_group
from muster.cli.options import AsJson, Run, RunsDir
from muster.cli.screen import console, figure, print_json, sparkline
from muster.experiment.quantities import counted, format_duration
from muster.files.shown import short_name
from muster.runs.finding import find_run
from muster.runs.folder import runs_dir as folder_of_runs
from muster.runs.groups import find_group
from muster.runs.metrics import numbers
from muster.runs.reading import RunRecord, printable, read_run

SPARKLINE_WIDTH = 60
_MOST_RETURNS = 100 * SPARKLINE_WIDTH


def show(
    run: Run,
    runs_dir: RunsDir = None,
    as_json: AsJson = False,
) -> None:
    """Show one run: state, results, checkpoints, last event, and what of its folder cannot be read.

    Of a sweep or a folder of several seeds: all its runs.
    """
    if (group := find_group(run, folder_of_runs(runs_dir))) is not None:
        show_group(group, as_json=as_json)
        return
    record = read_run(find_run(run, folder_of_runs(runs_dir)))
    if as_json:
        print_json(
            {
                **asdict(record.status),
                "state": record.status.shown_state,
                "run": str(record.folder.path),
                "experiment": record.experiment.as_table() if record.experiment else None,
                "checkpoints": record.checkpoints,
                "metrics": record.last_row,
                "problems": record.problems,
            }
        )
    else:
        _show(record)


def _show(record: RunRecord) -> None:
    experiment, status, row = record.experiment, record.status, record.last_row
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan")
    table.add_column(overflow="fold")
    table.add_row("run", printable(str(record.folder.path)))
    if experiment is not None:
        text = f"{experiment.algorithm.name} on {short_name(experiment.env.id)}, seed {experiment.seed}"
        table.add_row("experiment", printable(text))
    reason = f": {printable(status.reason)}" if status.reason else ""
    table.add_row("state", status.shown_state + reason)
    table.add_row("progress", f"{status.steps:,} steps in {counted(status.iteration, 'iteration')}")
    returns = sparkline(record.rows.some_numbers("return/mean", _MOST_RETURNS), SPARKLINE_WIDTH)
    table.add_row("return", f"{figure(status.return_mean)}  {returns}")
    if seconds := numbers([row], "time/total"):
        speed = status.steps / seconds[0] if seconds[0] > 0 else 0
        table.add_row("time", f"{format_duration(seconds[0])}, {speed:,.0f} steps/s")
        counts = f"simulator {row['failures/simulator']}, worker {row['failures/worker']}"
        table.add_row("failures", printable(counts))
    saved = ", ".join(record.checkpoints) or "none yet"
    table.add_row("checkpoints", saved + (f" (best: {record.best})" if record.best else ""))
    last = record.last_event.get("event") if record.last_event else None
    table.add_row("last event", printable(str(last)) if last is not None else "-")
    for problem in record.problems:
        table.add_row("problem", problem)
    console().print(table)
