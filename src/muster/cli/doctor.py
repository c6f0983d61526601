"""`muster doctor`: is this host, and are all hosts of this allocation, fit for training?"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from muster.cli.options import AsJson, Interface, PortRange, RunsDir, parse_port_range, parse_timeout
from muster.cli.screen import console, print_json
from muster.environment_variables import LAUNCH_CPUS_VARIABLE, RUN_DIR_VARIABLE
from muster.errors import InputError
from muster.runs.folder import runs_dir as folder_of_runs
from muster.simulators.verdict import Verdict

if TYPE_CHECKING:
    from muster.clusters.doctor.report import Report

_STYLES = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.PROBLEM: "bold red"}


def doctor(
    target: Annotated[
        str | None, typer.Argument(metavar="FILE|ID", help="Experiment whose simulator to build on every host.")
    ] = None,
    timeout: Annotated[
        str, typer.Option(help="How long to wait for all hosts, and then for the simulator to be built.")
    ] = "60s",
    interface: Interface = None,
    port_range: PortRange = None,
    runs_dir: RunsDir = None,
    as_json: AsJson = False,
) -> None:
    """Look for what is in the way of training, on this host or on all hosts of an allocation.

    Started by srun, mpirun or another launcher, the same command on every rank; or alone. Rank 0 prints what
    was found, with remedies. Ends with 0, or with 1 if there is any problem; warnings do not count.
    """
    from muster.clusters.allocation.reading import read_allocation
    from muster.clusters.doctor.doctor_options import DoctorOptions
    from muster.clusters.doctor.examination import Examination
    from muster.clusters.launching.rendezvous import identify
    from muster.clusters.launching.step_commands import Step, start_ranks

    if LAUNCH_CPUS_VARIABLE in os.environ:
        raise InputError(
            "doctor: under `muster launch` it would run on the head alone\n"
            "    start it as a launch is started, on every rank: srun muster doctor"
        )

    options = DoctorOptions(
        records=Path(os.environ.get(RUN_DIR_VARIABLE) or folder_of_runs(runs_dir)).resolve() / "examinations",
        target=target,
        timeout=parse_timeout(timeout),
        interface=interface,
        port_range=parse_port_range(port_range),
    )
    allocation = read_allocation()
    if (code := start_ranks(allocation, Step(options.records))) is not None:
        raise typer.Exit(code)
    ranks = allocation.ranks
    alone = ranks is None or (ranks.num_ranks is not None and ranks.num_ranks.value == 1)
    name = f"alone-{secrets.token_hex(4)}" if alone else identify(allocation)
    report = Examination(allocation, options, name).run()
    if report is None:
        return
    if as_json:
        print_json(report.as_table())
    else:
        _show(report)
    raise typer.Exit(report.exit_code)


def _show(report: Report) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("verdict", "check", "host", "found, and what to do"):
        table.add_column(heading, overflow="fold")
    for row in report.rows:
        finding = row.finding
        hosts = f"all {len(row.hosts)}" if 1 < len(row.hosts) == len(report.hosts) else ", ".join(row.hosts)
        text = Text(finding.message)
        if finding.remedy:
            text.append(f"\n→ {finding.remedy}", "cyan")
        table.add_row(Text(finding.verdict, _STYLES[finding.verdict]), finding.check, hosts, text)
    console().print(table)
    problems, warnings = report.count(Verdict.PROBLEM), report.count(Verdict.WARNING)
    summary = f"{_counted(problems, 'problem')}, {_counted(warnings, 'warning')}"
    console().print(f"\n{_counted(len(report.hosts), 'host')}: {summary}")


def _counted(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"
