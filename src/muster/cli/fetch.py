"""`muster fetch`: bring the results of a run that lives elsewhere to this machine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.options import Run, RunsDir
from muster.cli.screen import console, show_notice
from muster.errors import InputError
from muster.experiment.quantities import counted
from muster.runs.folder import runs_dir as folder_of_runs

if TYPE_CHECKING:
    from muster.jobs.places.record import RunElsewhere

WATCH_SECONDS = 10.0


def fetch(
    run: Run,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep fetching what is new until the run has ended.")
    ] = False,
    runs_dir: RunsDir = None,
) -> None:
    """Bring what is new of a run that lives elsewhere into its folder here; it may still be training.

    Only what has changed travels, and a fetch that was interrupted continues. Nothing is removed on either side.
    """
    from muster.jobs.folder import JobFolder
    from muster.jobs.places.record import find_elsewhere

    directory = folder_of_runs(runs_dir)
    found = find_elsewhere(run, directory)
    if found is None:
        if any(JobFolder(path).exists() for path in (Path(run), directory / run)):
            raise InputError(f"{run}: is on this file system already, in {directory / run}")
        raise InputError(f"no run {run!r} in {directory} that lives elsewhere\n    `muster status` lists the runs")
    try:
        while not _fetched(found, watch=watch) and watch:
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        show_notice("\nstopped fetching; the run continues")
        raise typer.Exit(130) from None


def _fetched(run: RunElsewhere, *, watch: bool) -> bool:
    """Fetch once; a place that cannot be reached for a while does not end a watch."""
    from muster.jobs.places.connection import UnreachableError

    try:
        return _fetch_once(run)
    except UnreachableError as error:
        if not watch:
            raise
        show_notice(f"{str(error).partition(chr(10))[0]}; trying again")
        return False


def _fetch_once(run: RunElsewhere) -> bool:
    """Fetch what there is; return whether the run had ended before."""
    from muster.jobs.places.asking import read_states_elsewhere
    from muster.jobs.places.model import find_place
    from muster.jobs.states import ENDED_STATES
    from muster.runs.folder import saved_checkpoints

    states = read_states_elsewhere([run], may_ask=True)
    target = run.path / run.member
    target.mkdir(parents=True, exist_ok=True)
    find_place(run.record).fetch(run, target)
    saved = sum(len(saved_checkpoints(path)) for path in target.rglob("checkpoints"))
    described = ", ".join(dict.fromkeys(state.state for state in states))
    steps = max((state.steps for state in states), default=0)
    console().print(f"{target}: {described}, {steps:,} steps, {counted(saved, 'checkpoint')}")
    return all(state.state in ENDED_STATES for state in states)
