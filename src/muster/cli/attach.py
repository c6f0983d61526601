"""`muster attach`: the live view of a run that another process trains."""

from __future__ import annotations

import time

from muster.cli.options import Run, RunsDir
from muster.cli.screen import console
from muster.runs.folder import runs_dir as folder_of_runs

POLL_SECONDS = 0.5


def attach(run: Run, runs_dir: RunsDir = None) -> None:
    """Show a run live, wherever it trains on this file system; Ctrl-C detaches, and the run continues."""
    from muster.cli.views import LiveView, View
    from muster.jobs.watching import Watcher
    from muster.runs.finding import find_run

    folder = find_run(run, folder_of_runs(runs_dir))
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
