"""One run as `muster show` prints it."""

from __future__ import annotations

import shutil
import sys
import textwrap
from dataclasses import asdict
from pathlib import Path

from muster.cli.screen import figure, print_json, sparkline
from muster.experiment.quantities import counted, format_duration
from muster.files.shown import short_name
from muster.runs.finding import find_run
from muster.runs.folder import RunFolder
from muster.runs.groups import find_group
from muster.runs.metrics import numbers
from muster.runs.reading import RunRecord, printable, read_run

SPARKLINE_WIDTH = 60
_MARGIN = 13


def show_named(name: str, directory: Path, *, as_json: bool) -> None:
    """Print what there is by a name: a run, or all runs of a sweep or of several seeds.

    Raises:
        InputError: if there is nothing.
    """
    if (group := find_group(name, directory)) is None:
        show_run(find_run(name, directory), as_json=as_json)
        return
    from muster.cli.group_views import show_group

    show_group(group, as_json=as_json)


def show_run(folder: RunFolder, *, as_json: bool) -> None:
    """Print state, results, checkpoints, last event, and what of the folder cannot be read."""
    record = read_run(folder, sampled=True)
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
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for label, text in _lines(record):
        print(_folded(f"{label:<{_MARGIN}}{text}", width))


def _lines(record: RunRecord) -> list[tuple[str, str]]:
    experiment, status, row = record.experiment, record.status, record.last_row
    lines = [("run", printable(str(record.folder.path)))]
    if experiment is not None:
        text = f"{experiment.algorithm.name} on {short_name(experiment.env.id)}, seed {experiment.seed}"
        lines.append(("experiment", printable(text)))
    reason = f": {printable(status.reason)}" if status.reason else ""
    lines.append(("state", status.shown_state + reason))
    lines.append(("progress", f"{status.steps:,} steps in {counted(status.iteration, 'iteration')}"))
    returns = sparkline(record.rows.numbers("return/mean"), SPARKLINE_WIDTH)
    lines.append(("return", f"{figure(status.return_mean)}  {returns}"))
    if seconds := numbers([row], "time/total"):
        speed = status.steps / seconds[0] if seconds[0] > 0 else 0
        lines.append(("time", f"{format_duration(seconds[0])}, {speed:,.0f} steps/s"))
        counts = f"simulator {row['failures/simulator'] or '-'}, worker {row['failures/worker'] or '-'}"
        lines.append(("failures", printable(counts)))
    saved = ", ".join(record.checkpoints) or "none yet"
    lines.append(("checkpoints", saved + (f" (best: {record.best})" if record.best else "")))
    last = record.last_event.get("event") if record.last_event else None
    lines.append(("last event", printable(str(last)) if last is not None else "-"))
    return lines + [("problem", problem) for problem in record.problems]


def _folded(line: str, width: int | None) -> str:
    """Break a line that is too long for a terminal."""
    if width is None or len(line) <= width:
        return line
    return "\n".join(textwrap.wrap(line, max(width, 2 * _MARGIN), subsequent_indent=" " * _MARGIN))
