"""`muster serve`: all runs of a folder, live in a browser."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.live_page import print_address
from muster.cli.options import AsJson, RunsDir
from muster.cli.screen import print_json, show_notice
from muster.errors import InputError
from muster.files.regular import is_folder
from muster.runs.folder import RunFolder
from muster.runs.folder import runs_dir as folder_of_runs

NICENESS = 5
"""So that a run that trains on this machine goes first."""


def serve(
    runs: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUNS", help="Folder of runs, or its name among the runs; default: that of all runs."
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1024, max=65535, help="Port on this machine; default: any free one.")
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    runs_dir: RunsDir = None,
    as_json: AsJson = False,
) -> None:
    """Show all runs of a folder in a browser, live, until Ctrl-C.

    The address ends with a token: who has it can look at the runs, and stop them. --json prints both.
    """
    from muster.jobs.dashboard.page import page_shown
    from muster.serving.server import live_server

    directory = _folder(runs, folder_of_runs(runs_dir))
    with ExitStack() as held:
        server = held.enter_context(live_server(directory, port, show_notice))
        os.nice(NICENESS)
        if as_json:
            print_json({"address": server.address, "token": server.token, "runs": str(directory.resolve())})
        else:
            print_address(server.address_with_token)
            show_notice("Ctrl-C closes it; the runs continue")
            if not no_browser:
                held.enter_context(page_shown(server.address_with_token))
        try:
            server.run()
        except KeyboardInterrupt:
            show_notice("\nclosed; the runs continue")


def _folder(named: Path | None, all_runs: Path) -> Path:
    """Return the folder of runs that is meant by a path, or by a name in the folder of all runs."""
    places = (all_runs,) if named is None else (named, all_runs / named)
    found = next((path for path in places if is_folder(path)), None)
    if found is None:
        raise InputError(f"{places[0]}: no such folder\n    give a folder of runs, or start one: muster train")
    if RunFolder(found).exists():
        raise InputError(
            f"{found}: is one run, expected a folder of runs\n    for this run: muster dashboard {found} --live"
        )
    return found
