"""`muster prune`: remove what is not needed any more."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from muster.cli.options import AsJson, RunsDir
from muster.cli.screen import columns, print_json
from muster.errors import InputError
from muster.experiment.quantities import LONGEST_SECONDS, counted, parse_duration
from muster.runs.folder import runs_dir as folder_of_runs
from muster.runs.reading import printable


def prune(
    older_than: Annotated[
        str, typer.Option(metavar="TIME", help="Only what was last changed so long ago, such as 12h or 30d.")
    ] = "7d",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    runs_dir: RunsDir = None,
    as_json: AsJson = False,
) -> None:
    """Remove what ended runs do not need: older checkpoints, runs without an iteration, ended launches.

    The best and the newest checkpoint of every run stay. Shows what it would remove, and asks first.
    """
    from muster.runs.pruning import find_waste
    from muster.runs.removing import remove_folder

    directory = folder_of_runs(runs_dir)
    found = find_waste(directory, _seconds(older_than))
    total = sum(waste.bytes for waste in found)
    if not as_json:
        rows = [(printable(str(one.path)), f"{one.bytes / 1e6:,.1f} MB", one.why) for one in found]
        print(columns([("folder", "size", "what it is"), *rows], numbers=(1,)) if rows else "nothing to remove")
    if found and not (yes or dry_run):
        question = f"remove {counted(len(found), 'folder')}, {total / 1e6:,.1f} MB?"
        typer.confirm(question, abort=True, err=True)
    if not dry_run:
        for waste in found:
            remove_folder(waste.path)
    if as_json:
        print_json({"removed": not dry_run, "bytes": total, "folders": [asdict(waste) for waste in found]})
    elif found and not dry_run:
        print(f"removed {counted(len(found), 'folder')}, {total / 1e6:,.1f} MB")


def _seconds(text: str) -> float:
    try:
        seconds = float(str(parse_duration(text)))
    except (ValueError, OverflowError) as error:
        raise InputError(f"--older-than {text}: {error}") from None
    if not 0 <= seconds <= LONGEST_SECONDS:
        raise InputError(f"--older-than {text}: expected 0s or more, such as 12h or 30d")
    return seconds
