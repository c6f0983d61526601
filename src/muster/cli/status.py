"""`muster status`: where submitted runs are, in the queue and in training."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from muster.cli.options import AsJson, RunsDir
from muster.cli.screen import console, figure, print_json, show_notice
from muster.errors import InputError
from muster.experiment.quantities import format_duration
from muster.runs.folder import runs_dir as folder_of_runs
from muster.runs.reading import printable

if TYPE_CHECKING:
    from muster.jobs.folder import JobFolder
    from muster.jobs.places.record import RunElsewhere
    from muster.jobs.states import RunState

_STYLES = {"running": "green", "finished": "green", "failed": "bold red", "lost": "bold red", "unknown": "yellow"}
_HEADINGS = ("run", "state", "on", "job", "link", "steps", "return")
_NUMBERS = _HEADINGS[4:]
SHORTEST_REASON = 5


def status(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="A run's name or folder; default: all.")
    ] = None,
    runs_dir: RunsDir = None,
    as_json: AsJson = False,
) -> None:
    """Show where submitted runs are: in the queue, starting, training, or how they ended.

    A scheduler that does not answer makes a run `unknown`; nothing is done because of that.
    """
    from muster.jobs.folder import find_job, list_jobs, members
    from muster.jobs.places.asking import read_states_elsewhere
    from muster.jobs.places.record import find_elsewhere
    from muster.jobs.states import read_states

    directory = folder_of_runs(runs_dir)
    if run is None:
        states = read_states(_readable(list_jobs(directory))) + read_states_elsewhere(_elsewhere(directory))
    elif (elsewhere := find_elsewhere(run, directory)) is not None:
        states = read_states_elsewhere([elsewhere], may_ask=True)
    else:
        states = read_states(members(find_job(run, directory)))
    if as_json:
        table = [asdict(state) for state in states]
        print_json(table[0] if run is not None and len(table) == 1 else table)
    elif not states:
        print(f"no submitted runs in {directory}; submit one: muster submit exp.toml --on NAME")
    elif run is not None and len(states) == 1:
        _show_one(states[0])
    else:
        _show_all(states, directory)


def _readable(jobs: list[JobFolder]) -> list[JobFolder]:
    """Leave out what is no single run, and say what cannot be read."""
    found = []
    for job in jobs:
        try:
            if job.order().kind != "seeds":
                found.append(job)
        except InputError as error:
            show_notice(printable(str(error).partition("\n")[0]))
    return found


def _elsewhere(directory: Path) -> list[RunElsewhere]:
    """Return the runs that live elsewhere, and say which record cannot be read."""
    from muster.jobs.places.record import RunElsewhere, list_elsewhere, read_record

    found = []
    for path in list_elsewhere(directory):
        try:
            found.append(RunElsewhere(path, read_record(path)))
        except InputError as error:
            show_notice(printable(str(error).partition("\n")[0]))
    return found


def _show_all(states: list[RunState], directory: Path) -> None:
    """Show a line each; names and ids are to be typed, so only the reason is cut."""
    screen = console()
    rows = [_HEADINGS, *(_cells(state, directory) for state in states)]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    room = max(SHORTEST_REASON, screen.width - sum(widths) - 2 * len(widths))
    screen.print(_line(rows[0], widths, "reason"), style="bold")
    for row, state in zip(rows[1:], states, strict=True):
        reason = Text(printable(state.reason))
        reason.truncate(room, overflow="ellipsis")
        screen.print(_line(row, widths, reason.plain, _STYLES.get(state.state, "default")))


def _line(cells: tuple[str, ...], widths: list[int], reason: str, style: str = "") -> Text:
    line = Text()
    for heading, cell, width in zip(_HEADINGS, cells, widths, strict=True):
        space = " " * (width - cell_len(cell))
        line.append(space + cell if heading in _NUMBERS else cell + space, style if heading == "state" else "")
        line.append("  ")
    line.append(reason)
    line.rstrip()
    return line


def _cells(state: RunState, directory: Path) -> tuple[str, ...]:
    progress = (str(state.link), f"{state.steps:,}", figure(state.return_mean))
    where = printable(state.cluster)
    return printable(_name(state, directory)), state.state, where, state.job_id or "-", *progress


def _name(state: RunState, directory: Path) -> str:
    """Return what to call a run by: those of an array are in a folder of their own."""
    path, folder = Path(state.run).resolve(), directory.resolve()
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else path.name


def _show_one(state: RunState) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan")
    table.add_column(overflow="fold")
    table.add_row("run", printable(state.run))
    reason = f": {printable(state.reason)}" if state.reason else ""
    table.add_row("state", _styled(state).append(reason, "default"))
    where = f", asked at {printable(state.place)}" if state.place else ""
    table.add_row("job", f"{state.job_id or '-'} on {printable(state.cluster)} ({state.scheduler}){where}")
    if state.start:
        table.add_row("starts" if state.state == "queued" else "started", printable(state.start))
    table.add_row("link", f"{state.link} of at most {state.max_jobs}")
    if state.kind == "train":
        table.add_row("progress", f"{state.steps:,} steps in {state.iteration} iterations")
        table.add_row("return", figure(state.return_mean))
    if state.updated and state.state not in ("finished", "failed", "cancelled", "stopped", "queued"):
        table.add_row("heartbeat", f"{format_duration(max(0.0, time.time() - state.updated))} ago")
    table.add_row("used", _usage(state))
    console().print(table)


def _usage(state: RunState) -> str:
    text = f"{state.node_hours:.2f} node-hours"
    if state.cpu_efficiency is not None:
        text += f", CPUs {100 * state.cpu_efficiency:.0f} % busy"
    if state.memory:
        text += f", at most {state.memory / 1024**3:.1f} GiB on a host"
    return text


def _styled(state: RunState) -> Text:
    return Text(state.state, _STYLES.get(state.state, "default"))
