"""`muster sweep`: train trials of one experiment with other values, and find the best."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.options import AsJson, RunsDir, Settings, Target, Trust
from muster.cli.screen import console, figure, print_json
from muster.experiment.loading import Override, load_experiment, parse_set
from muster.experiment.schema import describe
from muster.files.shown import short_path

if TYPE_CHECKING:
    from muster.sweeps import SweepResult


def sweep(
    target: Target,
    trials: Annotated[int | None, typer.Option(help=describe("sweep.trials"), show_default=False)] = None,
    concurrent: Annotated[int | None, typer.Option(help=describe("sweep.concurrent"), show_default=False)] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the sweep and its folder; default: simulator and algorithm.")
    ] = None,
    runs_dir: RunsDir = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the sweep of that name if there is one, else start it.")
    ] = False,
    trust: Trust = False,
    settings: Settings = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print errors and the result only.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print every row of every trial, and what trials print.")
    ] = False,
) -> None:
    """Train trials of an experiment with other values, as its [sweep] says, and write the best one's file.

    Ctrl-C saves all trials and stops; --resume continues from there.
    """
    overrides = [
        Override(key, value, flag)
        for flag, key, value in (
            ("--trials", "sweep.trials", trials),
            ("--concurrent", "sweep.concurrent", concurrent),
            ("--name", "name", name),
        )
        if value is not None
    ]
    loaded = load_experiment(target, [*overrides, *map(parse_set, settings or [])])

    from muster.cli.sweep_views import LiveSweepView, SweepView
    from muster.sweeps import SweepOptions
    from muster.sweeps import sweep as run_sweep

    screen = console(stderr=as_json)
    live = screen.is_terminal and not (as_json or quiet or verbose)
    view = LiveSweepView(screen) if live else SweepView(screen, verbose=verbose, quiet=quiet)
    with view:
        result = run_sweep(loaded, SweepOptions(runs_dir, resume, show_output=verbose, trust=trust), view)
    if as_json:
        print_json(asdict(result))
    else:
        _show(result, quiet=quiet)
    raise typer.Exit(result.exit_code)


def _show(result: SweepResult, *, quiet: bool) -> None:
    screen = console()
    states = ", ".join(f"{count} {state}" for state, count in result.states.items())
    screen.print(f"{result.reason}: {states}")
    if result.best_trial is not None:
        values = ", ".join(f"{key} = {value}" for key, value in (result.best_values or {}).items())
        screen.print(f"best: {result.best_trial}, {result.metric} {figure(result.best_metric)}, {values}")
    folder = short_path(result.sweep)
    screen.print(f"results in {folder}")
    if quiet:
        return
    if result.exit_code:
        screen.print("\nthe same command with --resume continues, and tries again what failed")
    elif result.best_trial is not None and result.best_file is not None:
        commands = f"muster train {short_path(result.best_file)}", f"muster evaluate {folder}"
        width = max(map(len, commands))
        screen.print(f"\n  {commands[0]:<{width}}  # train the best once more")
        screen.print(f"  {commands[1]:<{width}}  # how good is it?")
