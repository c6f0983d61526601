"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

RunsDir = Annotated[str | None, typer.Option(envvar="MUSTER_RUNS_DIR", help="Folder of all runs; default: runs.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set any key; may be repeated.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as a line of JSON.")]
Run = Annotated[str, typer.Argument(metavar="RUN", help="A run's name or folder.")]
Target = Annotated[str, typer.Argument(metavar="FILE|ID", help="Experiment file, or a simulator's id.")]
Checkpoint = Annotated[str, typer.Option(help="best, latest, or an iteration.")]
