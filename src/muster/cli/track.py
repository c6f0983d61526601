"""`muster track`: the metrics of runs in an experiment tracker."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.options import AsJson, Run, RunsDir
from muster.cli.screen import console, print_json, show_notice
from muster.errors import TrackerError
from muster.experiment.quantities import counted
from muster.runs.folder import RunFolder
from muster.runs.folder import runs_dir as folder_of_runs
from muster.runs.reading import printable

if TYPE_CHECKING:
    from muster.tracking.followed_run import FollowedRun

WATCH_SECONDS = 5.0


def track(
    run: Run,
    to: Annotated[str, typer.Option("--to", metavar="TRACKER", help="mlflow, tensorboard, trackio or wandb.")],
    project: Annotated[str, typer.Option(help="The tracker's project or experiment.")] = "muster",
    at: Annotated[
        str | None,
        typer.Option(help="MLflow's or W&B's server, or TensorBoard's folder; default: what the tracker takes."),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep sending what is new until the run has ended.")
    ] = False,
    runs_dir: RunsDir = None,
    as_json: AsJson = False,
) -> None:
    """Send the metrics of a run, or of all runs of a folder, to a tracker, each value once.

    It only reads the run folder, so it can run where there is internet while the run trains where there is none.
    Started again, it continues.
    """
    from muster.reports.groups import find_folder
    from muster.tracking.followed_run import FollowedRun
    from muster.tracking.trackers import open_tracker

    path, folders = find_folder(run, folder_of_runs(runs_dir))
    open_tracker(to, project, at)
    place = f"{to} {project} {at or ''}"
    followed = [
        FollowedRun(folder, _name(folder, path), lambda: open_tracker(to, project, at), place)
        for folder in folders
    ]
    try:
        _send(followed, watch=watch)
    except KeyboardInterrupt:
        show_notice("\nstopped sending; the same command continues")
        raise typer.Exit(130) from None
    if as_json:
        print_json([{"run": one.name, "sent": one.sent, "where": one.where} for one in followed])
        return
    for one in followed:
        where = f"to {one.where}" if one.where else "as no iteration is recorded yet"
        console().print(printable(f"{one.name}: sent {counted(one.sent, 'point')} {where}"))
        if one.repeated:
            show_notice(
                f"{one.name}: {counted(one.repeated, 'point')} trained again after a resumption were left out"
            )


def _name(folder: RunFolder, path: Path) -> str:
    name = folder.path.resolve().name
    return name if folder.path == path else f"{path.resolve().name}/{name}"


def _send(followed: list[FollowedRun], *, watch: bool) -> None:
    """Send what there is; with `watch`, until all runs have ended, through failures of the tracker."""
    while True:
        over = [one.is_over() for one in followed]
        failures = []
        for one in followed:
            try:
                one.send_new()
            except TrackerError as error:
                if not watch:
                    raise
                failures.append(error)
        if failures:
            show_notice(f"{str(failures[0]).partition(chr(10))[0]}; trying again")
        elif not watch or all(over):
            break
        time.sleep(WATCH_SECONDS)
    for one in followed:
        one.end()
