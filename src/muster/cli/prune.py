"""`muster prune`: remove what is not needed any more."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.options import AsJson, RunsDir
from muster.cli.screen import columns, print_json
from muster.errors import InputError, MusterError, StorageError
from muster.experiment.quantities import LONGEST_SECONDS, counted, parse_duration
from muster.runs.folder import runs_dir as folder_of_runs
from muster.runs.reading import printable

if TYPE_CHECKING:
    from muster.runs.pruning import Waste

_FOLDABLE = {0: 16}
"""How narrow the folders may become in a narrow terminal."""


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

    latest = time.time() - _seconds(older_than)
    found = find_waste(folder_of_runs(runs_dir), latest)
    if not as_json:
        rows = [(printable(str(one.path)), f"{one.bytes / 1e6:,.1f} MB", one.why) for one in found]
        table = [("folder", "size", "what it is"), *rows]
        print(columns(table, numbers=(1,), foldable=_FOLDABLE) if rows else "nothing to remove")
    if found and not (yes or dry_run):
        typer.confirm(f"remove {_counted(found)}?", abort=True, err=True)
    removed, problems = ([], []) if dry_run else _remove(found, latest)
    if as_json:
        named = found if dry_run else removed
        folders = [{"path": one.path, "why": one.why, "bytes": one.bytes} for one in named]
        print_json({"removed": not dry_run, "bytes": sum(one.bytes for one in named), "folders": folders})
    elif removed:
        print(f"removed {_counted(removed)}")
    if problems:
        raise StorageError("\n".join(problems))


def _remove(found: Sequence[Waste], latest: float) -> tuple[list[Waste], list[str]]:
    """Return what was removed, and why the rest was not."""
    from muster.runs.pruning import remove_waste

    removed, problems = [], []
    for waste in found:
        try:
            remove_waste(waste, latest)
        except MusterError as error:
            problems.append(str(error))
        else:
            removed.append(waste)
    return removed, problems


def _counted(found: Sequence[Waste]) -> str:
    return f"{counted(len(found), 'folder')}, {sum(one.bytes for one in found) / 1e6:,.1f} MB"


def _seconds(text: str) -> float:
    try:
        seconds = float(str(parse_duration(text)))
    except (ValueError, OverflowError) as error:
        raise InputError(f"--older-than {text}: {error}") from None
    if not 0 <= seconds <= LONGEST_SECONDS:
        raise InputError(f"--older-than {text}: expected 0s or more, such as 12h or 30d")
    return seconds
