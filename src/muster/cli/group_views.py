"""What `muster show` and `muster evaluate` say of a folder that holds several runs: seeds, or a sweep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any

from rich.table import Table

from muster.cli.screen import console, figure, print_json
from muster.errors import InputError
from muster.experiment.quantities import counted
from muster.files.shown import short_path
from muster.runs.folder import RunFolder
from muster.runs.groups import Group
from muster.runs.reading import printable, read_state

if TYPE_CHECKING:
    from muster.sweeps.record import SweepRecord

_MOST_TRIALS = 1000

Evaluate = Callable[[str, int | None], dict[str, Any]]
"""Evaluates one run in episodes of a seed, and prints it unless JSON is wanted; returns what JSON says of it."""


def show_group(group: Group, *, as_json: bool) -> None:
    """Print a line on each run, and what they come to together."""
    if group.kind == "sweep":
        _show_sweep(_sweep(group), as_json=as_json)
    else:
        _show_seeds(group, as_json=as_json)


def evaluate_group(group: Group, evaluate: Evaluate, seed: int | None, *, as_json: bool) -> None:
    """Evaluate the best trial of a sweep; or each seed's run, all in the same episodes.

    Raises:
        InputError: if no trial is the best yet.
    """
    if group.kind == "sweep":
        best = _sweep(group).best()
        if best is None:
            raise InputError(f"{group.path}: no trial has a result yet")
        found = evaluate(str(group.path / best.name), seed)
        if as_json:
            print_json(found)
        return
    if seed is None:
        seed = _seed_of(group.members[0])
    each = [evaluate(str(member.path), seed) for member in group.members]
    means = [float(one["return_mean"]) for one in each]
    mean, deviation = fmean(means), pstdev(means)
    if as_json:
        summary = {"return_mean": mean, "return_std_between": deviation}
        print_json({"run": str(group.path), "runs": each, **summary})
        return
    seeds = f"{counted(len(each), 'seed')} in the same episodes"
    console().print(f"mean of {seeds}: return {figure(mean)} ± {figure(deviation)} between seeds")


def _seed_of(folder: RunFolder) -> int:
    from muster.experiment.loading import load_saved

    return load_saved(folder.experiment).experiment.seed


def _sweep(group: Group) -> SweepRecord:
    from muster.sweeps.folder import SweepFolder
    from muster.sweeps.record import SweepRecord

    return SweepRecord.load(SweepFolder(group.path))


def _show_sweep(record: SweepRecord, *, as_json: bool) -> None:
    from muster.cli.sweep_views import trial_table

    best = record.best()
    if as_json:
        content = {"sweep": str(record.folder.path), "metric": record.metric, "mode": record.mode}
        trials = {"trials": [asdict(trial) for trial in record.trials], "best_trial": best.name if best else None}
        print_json({**content, **trials})
        return
    screen = console()
    states = ", ".join(f"{count} {state}" for state, count in record.counts().items())
    screen.print(f"sweep {short_path(record.folder.path)}: {states}; {record.mode} of {record.metric}\n")
    screen.print(trial_table(record, _MOST_TRIALS), soft_wrap=False)
    if best is not None:
        values = ", ".join(f"{key} = {value}" for key, value in best.values.items())
        screen.print(f"\nbest: {best.name}, {record.metric} {figure(best.metric)}, {values}")


def _show_seeds(group: Group, *, as_json: bool) -> None:
    records = [read_state(member) for member in group.members]
    returns = [r.status.return_mean for r in records if r.status.return_mean is not None]
    mean = fmean(returns) if returns else None
    if as_json:
        each = [
            {"run": str(r.folder.path), "state": r.status.shown_state, "return_mean": r.status.return_mean}
            for r in records
        ]
        print_json({"run": str(group.path), "runs": each, "return_mean": mean})
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("run", "state", "iteration", "steps", "return"):
        table.add_column(heading, justify="left" if heading in ("run", "state") else "right")
    for record in records:
        status = record.status
        cells = (str(status.iteration), f"{status.steps:,}", figure(status.return_mean))
        table.add_row(printable(record.folder.name), status.shown_state, *cells)
    screen = console()
    screen.print(f"{counted(len(records), 'seed')} in {short_path(group.path)}\n")
    screen.print(table)
    screen.print(f"\nmean training return {figure(mean)}\n")
    screen.print(f"  muster evaluate {short_path(group.path)}  # how good are they, in the same episodes?")
