"""`muster attach`: the live view of a run that another process trains."""

from __future__ import annotations

import time

import typer

from muster.cli.options import Run, RunsDir
from muster.cli.screen import console
from muster.runs.folder import runs_dir as folder_of_runs

POLL_SECONDS = 0.5


def attach(run: Run, runs_dir: RunsDir = None) -> None:
    """Show a run live, wherever it trains; Ctrl-C detaches, and the run continues."""
    from muster.cli.views import LiveView, View
    from muster.jobs.places.model import find_place
    from muster.jobs.places.record import find_elsewhere
    from muster.jobs.watching import Watcher
    from muster.runs.finding import find_run

    directory = folder_of_runs(runs_dir)
    if (elsewhere := find_elsewhere(run, directory)) is not None:
        raise typer.Exit(find_place(elsewhere.record).attend(["attach", elsewhere.folder]))
    folder = find_run(run, directory)
    screen = console()
    view: View = (
        LiveView(screen, verbose=False) if screen.is_terminal else View(screen, verbose=False, quiet=False)
    )
    watcher = Watcher(folder, view)
    try:
        with view:
            while not watcher.look():
                time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        screen.print("\ndetached; the run continues")
        return
    screen.print(watcher.how_it_ended())
