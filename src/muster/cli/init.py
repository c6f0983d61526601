"""`muster init`: write an experiment file to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from muster.errors import InputError
from muster.experiment.schema import ALGORITHMS
from muster.experiment.writing import write_starting_file


def init(
    env_id: Annotated[str, typer.Argument(metavar="ID", help="The simulator.")] = "CartPole-v1",
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write.")] = Path("experiment.toml"),
    algorithm: Annotated[str, typer.Option(help=f"One of {', '.join(ALGORITHMS)}.")] = "PPO",
) -> None:
    """Write a commented experiment file, with every key and its default."""
    name = next((name for name in ALGORITHMS if name.upper() == algorithm.upper()), None)
    if name is None:
        raise InputError(f"--algorithm {algorithm}: expected one of {', '.join(ALGORITHMS)}")
    try:
        write_starting_file(output, env_id, name)
    except FileExistsError:
        raise InputError(f"{output}: exists already\n    choose another file with -o") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{output}: cannot be written: {getattr(error, 'strerror', None) or error}") from None
    print(f"wrote {output}\n\n  muster check {output}\n  muster train {output}")
