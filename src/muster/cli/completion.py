"""What the shell completes after Tab: runs, experiment files, algorithms, and the keys of `--set`."""

from __future__ import annotations

from pathlib import Path

import typer

from muster.experiment.schema import ALGORITHMS, Experiment, section_model
from muster.experiment.source import SUFFIX
from muster.files.regular import is_folder
from muster.runs.finding import list_runs
from muster.runs.folder import runs_dir


def complete_run(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of runs, and of folders with several."""
    directory = runs_dir(ctx.params.get("runs_dir"))
    names = [str(folder.path.relative_to(directory)) for folder in list_runs(directory)]
    groups = {str(Path(name).parent) for name in names if "/" in name}
    return sorted(name for name in {*names, *groups} if name.startswith(incomplete))


def complete_target(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return experiment files and the folders on the way to them; with --resume, runs."""
    if ctx.params.get("resume"):
        return complete_run(ctx, incomplete)
    folder = incomplete.rpartition("/")[0]
    try:
        found = list(Path(folder).iterdir())
    except OSError:
        return []
    names = [f"{path}/" for path in found if is_folder(path) and not path.name.startswith(".")]
    names += [str(path) for path in found if path.suffix == SUFFIX]
    return sorted(name for name in names if name.startswith(incomplete))


def complete_algorithm(incomplete: str) -> list[str]:
    """Return the names of algorithms."""
    return [name for name in ALGORITHMS if name.startswith(incomplete)]


def complete_setting(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the keys that `--set` takes, those of the algorithm that is asked for."""
    asked = str(ctx.params.get("algorithm") or "").upper()
    algorithm = next((name for name in ALGORITHMS if name.upper() == asked), "PPO")
    keys = []
    for name in Experiment.model_fields:
        model = section_model(name, algorithm)
        fields = model.model_fields.items() if model else ()
        keys += [f"{name}.{field.alias or key}=" for key, field in fields] or [f"{name}="]
    return [key for key in keys if key.startswith(incomplete)]
