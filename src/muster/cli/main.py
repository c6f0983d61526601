"""The `muster` command and what all its subcommands have in common."""

from __future__ import annotations

from typing import Annotated

import typer

import muster
from muster.cli.command_table import Commands
from muster.cli.explained import run_explained
from muster.cli.start import ALARM, give_signals_back

app = typer.Typer(
    name="muster",
    cls=Commands,
    help="Train a reinforcement-learning agent in your own simulator.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"muster {muster.__version__}")
        raise typer.Exit


@app.callback()
def main(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Train a reinforcement-learning agent in your own simulator: on a laptop, or with the same file elsewhere."""
    if context.invoked_subcommand in ("train", "resume", "sweep"):
        from muster.cli.streams import steady_streams

        steady_streams()
        give_signals_back(ALARM)
    elif context.invoked_subcommand not in ("launch", "link"):
        give_signals_back()


def run() -> None:
    """Run the command line."""
    run_explained(app)
