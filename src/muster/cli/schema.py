"""`muster schema`: the experiment file's schema and reference."""

from __future__ import annotations

from typing import Annotated

import typer

from muster.experiment.writing import json_schema, reference


def schema(
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the reference of all keys instead of the JSON schema.")
    ] = False,
) -> None:
    """Print the JSON schema of the experiment file, for editors."""
    print(reference() if markdown else json_schema(), end="")
