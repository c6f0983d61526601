"""`muster link`: what a job script runs; not for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def link(folder: Annotated[Path, typer.Argument(help="The run's folder.")]) -> None:
    """Be one job of a run's chain."""
    from muster.jobs.folder import JobFolder
    from muster.jobs.link import run_link

    raise typer.Exit(run_link(JobFolder(folder)))
