"""`muster show`: tell all about one run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from muster.cli.options import AsJson, Run, RunsDir
from muster.cli.screen import console, figure, print_json, sparkline
from muster.experiment.loading import load_experiment
from muster.experiment.quantities import counted, format_duration
from muster.experiment.schema import Experiment
from muster.runs.files import read_json_lines
from muster.runs.finding import find_run
from muster.runs.folder import RunFolder
from muster.runs.folder import runs_dir as folder_of_runs
from muster.runs.metrics import read_metrics
from muster.runs.status import Status, read_status

SPARKLINE_WIDTH = 60


@dataclass(frozen=True)
class RunSummary:
    """What a run's folder says about it."""

    folder: RunFolder
    experiment: Experiment
    status: Status
    returns: list[float]
    last_row: dict[str, str]
    checkpoints: list[str]
    events: list[dict[str, Any]]


def show(
    run: Run,
    runs_dir: RunsDir = None,
    as_json: AsJson = False,
) -> None:
    """Tell all about one run: its state, what it learned, what it saved, what happened."""
    summary = _summarise(find_run(run, folder_of_runs(runs_dir)))
    if as_json:
        print_json(
            {
                **asdict(summary.status),
                "state": summary.status.shown_state,
                "run": str(summary.folder.path),
                "experiment": summary.experiment.as_table(),
                "checkpoints": summary.checkpoints,
                "metrics": summary.last_row,
            }
        )
    else:
        _show(summary)


def _summarise(folder: RunFolder) -> RunSummary:
    rows = read_metrics(folder.metrics) if folder.metrics.is_file() else []
    return RunSummary(
        folder,
        load_experiment(folder.experiment).experiment,
        read_status(folder.status) or Status("starting"),
        [float(row["return/mean"]) for row in rows if row["return/mean"]],
        rows[-1] if rows else {},
        sorted(path.name for path in folder.checkpoints.glob("[0-9]*")),
        read_json_lines(folder.events),
    )


def _show(summary: RunSummary) -> None:
    experiment, status, row = summary.experiment, summary.status, summary.last_row
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan")
    table.add_column(overflow="fold")
    table.add_row("run", str(summary.folder.path))
    table.add_row("experiment", f"{experiment.algorithm.name} on {experiment.env.id}, seed {experiment.seed}")
    reason = f": {status.reason}" if status.reason else ""
    table.add_row("state", status.shown_state + reason)
    table.add_row("progress", f"{status.steps:,} steps in {counted(status.iteration, 'iteration')}")
    table.add_row("return", f"{figure(status.return_mean)}  {sparkline(summary.returns, SPARKLINE_WIDTH)}")
    if row:
        seconds = float(row["time/total"])
        speed = status.steps / seconds if seconds else 0
        table.add_row("time", f"{format_duration(seconds)}, {speed:,.0f} steps/s")
        table.add_row("failures", f"simulator {row['failures/simulator']}, worker {row['failures/worker']}")
    saved = ", ".join(summary.checkpoints) or "none yet"
    best = summary.folder.checkpoints / "best"
    table.add_row("checkpoints", saved + (f" (best: {best.resolve().name})" if best.exists() else ""))
    table.add_row("last event", summary.events[-1]["event"] if summary.events else "-")
    console().print(table)
