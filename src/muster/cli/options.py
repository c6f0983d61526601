"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from muster.cli.completion import complete_run, complete_setting, complete_target
from muster.cli.help import EXPERIMENT, OUTPUT, RESOURCES, RUN, STOP
from muster.environment_variables import RUNS_DIR_VARIABLE
from muster.errors import InputError
from muster.experiment.loading import Override, parse_set
from muster.experiment.schema import describe
from muster.files.regular import is_folder, odd_kind

_MOST_DIGITS = 18


def _given(text: str | None) -> str | None:
    """Refuse an empty text, which a variable of a script gives that is not set."""
    if text is not None and not text.strip():
        raise typer.BadParameter("is empty; expected a name or path")
    return text


def key_option(*flags: str, key: str, panel: str = EXPERIMENT, completion: Any = None) -> Any:
    """Make the option of an experiment's key; its help is the key's description."""
    return typer.Option(
        *flags, help=describe(key), show_default=False, rich_help_panel=panel, autocompletion=completion
    )


RunsDir = Annotated[
    str | None,
    typer.Option(
        envvar=RUNS_DIR_VARIABLE, callback=_given, help="Folder of all runs; default: runs.", rich_help_panel=RUN
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set any key; may be repeated.",
        rich_help_panel=EXPERIMENT,
        autocompletion=complete_setting,
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the result as a line of JSON.", rich_help_panel=OUTPUT)
]
Run = Annotated[
    str,
    typer.Argument(metavar="RUN", callback=_given, help="A run's name or folder.", autocompletion=complete_run),
]
Target = Annotated[
    str,
    typer.Argument(
        metavar="FILE|ID",
        callback=_given,
        help="Experiment file, or a simulator's id.",
        autocompletion=complete_target,
    ),
]
WeightsFrom = Annotated[
    str | None,
    typer.Option(
        "--from",
        callback=_given,
        help="Start a new run from the weights of a checkpoint or run.",
        rich_help_panel=RUN,
        autocompletion=complete_run,
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust", help="Use a run that another user can change; code from its files is run.", rich_help_panel=RUN
    ),
]
Workers = Annotated[str | None, key_option("--workers", key="resources.workers", panel=RESOURCES)]
Gpus = Annotated[float | None, key_option("--gpus", key="resources.gpus", panel=RESOURCES)]
StopSteps = Annotated[str | None, key_option("--stop-steps", key="stop.steps", panel=STOP)]
StopIterations = Annotated[str | None, key_option("--stop-iterations", key="stop.iterations", panel=STOP)]
StopTime = Annotated[str | None, key_option("--stop-time", key="stop.time", panel=STOP)]
StopReturn = Annotated[float | None, key_option("--stop-return", key="stop.return", panel=STOP)]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print errors and the result only.", rich_help_panel=OUTPUT)]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", help="Print every iteration, and what workers print.", rich_help_panel=OUTPUT),
]
Checkpoint = Annotated[str, typer.Option(help="best, latest, or an iteration.")]
Interface = Annotated[str | None, typer.Option(help="Network to use: an interface or a subnet.")]
PortRange = Annotated[str | None, typer.Option(help="Ports to choose from, LOW-HIGH.")]


def overrides_of(given: Iterable[tuple[str, str, Any]], settings: Sequence[str] | None) -> list[Override]:
    """Return what flags give, each with its key and value, and then what `--set` gives."""
    flags = [Override(key, value, flag) for flag, key, value in given if value is not None]
    return flags + [parse_set(setting) for setting in settings or []]


def number_or_word(text: str | None) -> int | str | None:
    """Return the number that a text is, or else the text."""
    number = whole_number(text) if text is not None else None
    return text if number is None else number


def parse_timeout(text: str, flag: str = "--timeout") -> float:
    """Return the seconds that a flag says."""
    from muster.experiment.quantities import LONGEST_SECONDS, parse_duration

    try:
        seconds = float(str(parse_duration(text)))
    except (ValueError, OverflowError) as error:
        raise InputError(f"{flag} {text}: {error}") from None
    if not 0 < seconds <= LONGEST_SECONDS:
        raise InputError(f"{flag} {text}: expected more than 0s and at most {LONGEST_SECONDS:.0f}s, such as 5m")
    return seconds


def whole_number(text: str) -> int | None:
    """Return the number that is written with the digits 0 to 9, or None if it is anything else."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


def writable_file(flag: str, path: Path, suffixes: Sequence[str]) -> None:
    """Refuse a file to write that cannot be one.

    Raises:
        InputError: naming the flag and what is expected.
    """
    if path.suffix.lower() not in suffixes:
        raise InputError(f"{flag} {path}: expected a name that ends with {' or '.join(suffixes)}")
    if (what := odd_kind(path)) is not None:
        raise InputError(f"{flag} {path}: is {what}, expected a file")
    if not is_folder(path.parent) or not os.access(path.parent, os.W_OK):
        raise InputError(f"{flag} {path}: the folder {path.parent} is not there, or cannot be written to")


def parse_port_range(text: str | None) -> tuple[int, int] | None:
    """Return the lowest and highest port that `--port-range` says."""
    if text is None:
        return None
    low, high = (whole_number(part) for part in (text.partition("-")[0], text.partition("-")[2]))
    if low is None or high is None or not 1024 <= low < high <= 65535:
        raise InputError(f"--port-range {text}: expected LOW-HIGH between 1024 and 65535, such as 20000-24000")
    return low, high


def parse_address(text: str | None) -> tuple[str, int] | None:
    """Return the host and port that `--head-address` says."""
    if text is None:
        return None
    host, _, digits = text.rpartition(":")
    port = whole_number(digits)
    if not host or port is None or not 1024 <= port <= 65535:
        raise InputError(f"--head-address {text}: expected HOST:PORT with a free port, such as node1:20100")
    return host, port
