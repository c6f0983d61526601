"""`muster init`: write an experiment file to start from."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from muster.cli.completion import complete_algorithm
from muster.cli.screen import console, print_text, show_notice
from muster.errors import InputError, SimulatorError
from muster.experiment.loading import LoadedExperiment, Override, load_experiment
from muster.experiment.schema import ALGORITHMS
from muster.experiment.writing import starting_file, write_starting_file
from muster.files.regular import is_there
from muster.simulators.lookup import find_simulator, is_gymnasium_id


def init(
    env_id: Annotated[str, typer.Argument(metavar="ID", help="The simulator.")] = "CartPole-v1",
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write.")] = Path("experiment.toml"),
    algorithm: Annotated[
        str, typer.Option(help=f"One of {', '.join(ALGORITHMS)}.", autocompletion=complete_algorithm)
    ] = "PPO",
) -> None:
    """Write a commented experiment file, with every key, its default, and what was chosen for the simulator."""
    name = next((name for name in ALGORITHMS if name.upper() == algorithm.upper()), None)
    if name is None:
        raise InputError(f"--algorithm {algorithm}: expected one of {', '.join(ALGORITHMS)}")
    if is_there(output):
        raise InputError(f"{output}: exists already\n    choose another file with -o")
    loaded = load_experiment(env_id, [Override("algorithm.name", name, "--algorithm")])
    find_simulator(loaded.experiment.env.id, loaded.experiment.env.paths)
    chosen = _chosen(loaded)
    identifier, paths = _seen_from(output.absolute().parent, env_id)
    text = starting_file(identifier, name, chosen=chosen, own=_own(loaded), paths=paths)
    try:
        write_starting_file(output, text)
    except FileExistsError:
        raise InputError(f"{output}: exists already\n    choose another file with -o") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{output}: cannot be written: {getattr(error, 'strerror', None) or error}") from None
    print(f"wrote {output}")
    if chosen:
        print("\ndefaults that depend on something:")
    for key, (value, reason) in chosen.items():
        print_text(console(), f"  {key} = {json.dumps(value)}: {reason}")
    print(f"\n  muster check {output}\n  muster train {output}")


def _chosen(loaded: LoadedExperiment) -> dict[str, tuple[Any, str]]:
    """Return the defaults that depend on something, each with the reason."""
    from muster.training.choices import choices, look_at

    survey = None
    try:
        survey = look_at(loaded)
    except (InputError, SimulatorError) as error:
        show_notice(f"what depends on the simulator is left open: {str(error).splitlines()[0]}")
    return {key: (choice.value, choice.reason) for key, choice in choices(loaded, survey).items()}


def _own(loaded: LoadedExperiment) -> dict[str, Any]:
    """Return the algorithm's further keys; none if its engine is not installed, which is then said."""
    from muster.engines.choosing import own_hyperparameters

    try:
        return own_hyperparameters(loaded)
    except InputError as error:
        show_notice(f"the hyperparameters of {loaded.experiment.algorithm.name} are left out: {error}")
        return {}


def _seen_from(folder: Path, env_id: str) -> tuple[str, list[str]]:
    """Return a simulator's name as a file in a folder gives it, and where its module is if it is not there."""
    file, colon, attribute = env_id.rpartition(":")
    if colon and file.endswith(".py"):
        return f"{os.path.relpath(file, folder)}:{attribute}", []
    if is_gymnasium_id(env_id) or folder == Path.cwd():
        return env_id, []
    return env_id, [os.path.relpath(Path.cwd(), folder)]
