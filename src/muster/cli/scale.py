"""`muster scale`: is there a real speed-up?"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from muster.cli.options import AsJson, Settings, Target, whole_number, writable_file
from muster.cli.screen import console, print_json
from muster.errors import InputError
from muster.experiment.loading import load_experiment, parse_set
from muster.experiment.schema import MOST_WORKERS

if TYPE_CHECKING:
    from muster.reports.scaling import Scaling
    from muster.training.scaling_runs import Measured


def scale(
    target: Target,
    workers: Annotated[
        str | None,
        typer.Option(
            help="Numbers of workers to measure, separated by commas; default: 0, 1, 2, 4 ... up to the CPUs."
        ),
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option(help="Instead, numbers of hosts, each with a worker for every CPU; under `muster launch`."),
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long to measure each, at least.")] = 10.0,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to draw speed against workers.")] = Path(
        "scaling.png"
    ),
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Measure how training speeds up with workers, and say how many pay.

    Trains briefly with each number, on this machine or on the Ray of `muster launch`; leaves no runs behind.
    """
    if nodes is not None:
        numbers = _parse_numbers("--nodes", nodes)
    else:
        numbers = _all_that_fit() if workers is None else _parse_numbers("--workers", workers)
    if nodes is not None and numbers[0] == 0:
        raise InputError(f"--nodes {nodes}: expected 1 host or more")
    if not math.isfinite(seconds):
        raise InputError(f"--seconds {seconds}: expected a number such as 10")
    writable_file("--output", output, (".png", ".pdf", ".svg"))
    loaded = load_experiment(target, [parse_set(setting) for setting in settings or []])

    from muster.reports.scaling import Scaling, plot
    from muster.training.scaling_runs import measure_hosts, measure_scaling

    screen = console(stderr=True)

    def tell(row: Measured) -> None:
        screen.print(f"{_what(row)}: {row.speed:,.0f} steps/s")

    measure = measure_scaling if nodes is None else measure_hosts
    scaling = Scaling.of(measure(loaded, numbers, seconds, tell))
    plot(scaling, f"{loaded.experiment.env.id}, {loaded.experiment.algorithm.name}", output)
    if as_json:
        print_json({**scaling.as_table(), "plot": str(output)})
    else:
        _show(scaling, output)


def _all_that_fit() -> list[int]:
    """Return 0 and the powers of two up to the CPUs there are."""
    from muster.clusters.allocation.reading import usable_cpus
    from muster.environment_variables import LAUNCH_CPUS_VARIABLE

    launched = whole_number(os.environ.get(LAUNCH_CPUS_VARIABLE, ""))
    cpus = launched or usable_cpus()
    return [0, *(2**k for k in range(cpus.bit_length()))]


def _parse_numbers(flag: str, text: str) -> list[int]:
    numbers = [number for part in text.split(",") if (number := whole_number(part.strip())) is not None]
    if len(set(numbers)) != len(text.split(",")) or max(numbers) > MOST_WORKERS:
        raise InputError(
            f"{flag} {text}: expected different numbers up to {MOST_WORKERS} separated by commas, such as 1,2,4,8"
        )
    return sorted(numbers)


def _workers(number: int) -> str:
    if number == 0:
        return "in one process"
    return "1 worker" if number == 1 else f"{number} workers"


def _what(row: Measured) -> str:
    if row.hosts is None:
        return _workers(row.workers)
    return f"{row.hosts} host{'s' if row.hosts > 1 else ''}, {_workers(row.workers)}"


def _show(scaling: Scaling, output: Path) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    headings = ("workers", "steps/s", "speed-up", "efficiency", "iteration", "sampling", "learning", "waiting")
    has_hosts = scaling.measured[0].hosts is not None
    for heading in ("hosts", *headings) if has_hosts else headings:
        table.add_column(heading, justify="right")
    for row in scaling.measured:
        table.add_row(
            *([str(row.hosts)] if has_hosts else []),
            str(row.workers),
            f"{row.speed:,.0f}",
            f"{scaling.speed_up(row):.2f}",
            f"{scaling.efficiency(row):.0%}",
            *(f"{value:.3f} s" for value in (row.seconds, row.sample, row.learn, row.wait)),
        )
    screen = console()
    screen.print(table)
    last, best = scaling.measured[-1], scaling.recommended
    first = scaling.measured[0]
    gained = "" if best is first else f", {scaling.speed_up(best):.2f} times as fast as {_what(first)}"
    screen.print(f"\nrecommended: {_what(best)}{gained}")
    if (gain := scaling.gain_of_doubling) is not None:
        screen.print(
            f"forecast: {2 * last.workers} workers, each with a CPU, {gain:.2f} times as fast as {last.workers}; "
            f"{scaling.serial_fraction:.0%} of an iteration is serial"
        )
    screen.print(f"drawn in {output}")
