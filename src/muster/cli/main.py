"""The `muster` command: its subcommands, and the one place where errors are shown."""

from __future__ import annotations

import io
import os
import sys
import threading
from typing import Annotated

import typer

import muster
from muster.cli.command_table import Commands
from muster.cli.start import ALARM, give_signals_back
from muster.errors import MusterError

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
    """Run the command line; a failure that muster can explain ends with its message and exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What a name or file holds that the terminal cannot show is no reason to fail.
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except MusterError as error:
        from muster.cli.screen import show_error

        show_error(error)
        _leave_threads_behind(error.exit_code)
        sys.exit(error.exit_code)
    except SystemExit as end:
        _leave_threads_behind(end.code if isinstance(end.code, int) else int(end.code is not None))
        raise


def _leave_threads_behind(code: int) -> None:
    """End the process now if a simulator has left threads that Python would wait for."""
    if any(not thread.daemon and thread is not threading.main_thread() for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
