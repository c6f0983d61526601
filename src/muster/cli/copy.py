"""`muster copy`: a run's experiment as a new file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import Run, RunsDir
from muster.errors import InputError
from muster.files.regular import is_there
from muster.runs.folder import runs_dir as folder_of_runs


def copy(
    run: Run,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write, such as exp.toml.")],
    everything: Annotated[bool, typer.Option("--all", help="Write defaults too.")] = False,
    runs_dir: RunsDir = None,
) -> None:
    """Write a run's experiment as a new file: what was given for it, without its name."""
    from muster.experiment.loading import load_saved
    from muster.reports.experiments import as_new_file
    from muster.runs.files import write_text
    from muster.runs.finding import find_run

    if file.suffix != ".toml":
        raise InputError(f"{file}: expected a name that ends with .toml")
    if is_there(file):
        raise InputError(f"{file}: exists already\n    choose another file")
    folder = find_run(run, folder_of_runs(runs_dir))
    text = as_new_file(load_saved(folder.experiment).experiment, folder.name, everything=everything)
    try:
        write_text(file, text)
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror or error}") from None
    print(f"wrote {file}\n\n  muster check {file}\n  muster train {file}")
