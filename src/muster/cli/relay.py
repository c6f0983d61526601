"""`muster relay`: lead another machine to a run's dashboard; not for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def relay(folder: Annotated[Path, typer.Argument(help="The run's folder.")]) -> None:
    """Say where a run's dashboard is, and lead to it until standard input ends."""
    from muster.jobs.dashboard.relay import relay as run_relay

    run_relay(folder)
