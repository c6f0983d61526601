"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from muster.errors import InputError

RunsDir = Annotated[str | None, typer.Option(envvar="MUSTER_RUNS_DIR", help="Folder of all runs; default: runs.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set any key; may be repeated.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as a line of JSON.")]
Run = Annotated[str, typer.Argument(metavar="RUN", help="A run's name or folder.")]
Target = Annotated[str, typer.Argument(metavar="FILE|ID", help="Experiment file, or a simulator's id.")]
Checkpoint = Annotated[str, typer.Option(help="best, latest, or an iteration.")]
Interface = Annotated[str | None, typer.Option(help="Network to use: an interface or a subnet.")]
PortRange = Annotated[str | None, typer.Option(help="Ports to choose from, LOW-HIGH.")]


def parse_timeout(text: str, flag: str = "--timeout") -> float:
    """Return the seconds that a flag says."""
    from muster.experiment.quantities import parse_duration

    try:
        return float(str(parse_duration(text)))
    except ValueError as error:
        raise InputError(f"{flag} {text}: {error}") from None


def parse_port_range(text: str | None) -> tuple[int, int] | None:
    """Return the lowest and highest port that `--port-range` says."""
    if text is None:
        return None
    low, _, high = text.partition("-")
    if not (low.isdigit() and high.isdigit() and 1024 <= int(low) < int(high) <= 65535):
        raise InputError(f"--port-range {text}: expected LOW-HIGH between 1024 and 65535, such as 20000-24000")
    return int(low), int(high)


def parse_address(text: str | None) -> tuple[str, int] | None:
    """Return the host and port that `--head-address` says."""
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 1024 <= int(port) <= 65535:
        raise InputError(f"--head-address {text}: expected HOST:PORT with a free port, such as node1:20100")
    return host, int(port)
