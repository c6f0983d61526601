"""`muster runs`: list the runs."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from muster.cli.options import AsJson, RunsDir
from muster.cli.run_list import SORTS, Choice, show_list
from muster.errors import InputError
from muster.runs.folder import runs_dir as folder_of_runs
from muster.runs.groups import find_group
from muster.runs.status import STATES

WATCH_SECONDS = 2.0
_CLEAR = "\x1b[H\x1b[2J"


def runs(
    pattern: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="A sweep or folder of several seeds, or a part of names; may have * and ?."
        ),
    ] = None,
    state: Annotated[
        list[str] | None, typer.Option(metavar="STATE", help="Only runs in this state; may be repeated.")
    ] = None,
    sort: Annotated[
        str | None, typer.Option(metavar="BY", help=f"{', '.join(SORTS)}; default: the last started first.")
    ] = None,
    is_reversed: Annotated[bool, typer.Option("--reverse", help="In the opposite order.")] = False,
    group: Annotated[bool, typer.Option("--group", help="Put runs of the same experiment together.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Show the list again and again, until Ctrl-C.")] = False,
    runs_dir: RunsDir = None,
    as_json: AsJson = False,
) -> None:
    """List the runs, the newest first."""
    if sort is not None and sort not in SORTS:
        raise InputError(f"--sort {sort}: expected one of {', '.join(SORTS)}")
    for one in state or []:
        if one not in STATES:
            raise InputError(f"--state {one}: expected one of {', '.join(STATES)}")
    if watch and as_json:
        raise InputError("--watch and --json: give one of them")
    directory = folder_of_runs(runs_dir)
    if pattern is not None and (found := find_group(pattern, directory)) is not None:
        directory, pattern = found.path, None
    choice = Choice(pattern, tuple(state or ()), sort, is_reversed)
    if not watch:
        show_list(directory, choice, by_experiment=group, as_json=as_json)
        return
    try:
        while True:
            if sys.stdout.isatty():
                print(_CLEAR, end="")
            show_list(directory, choice, by_experiment=group)
            sys.stdout.flush()
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        return
