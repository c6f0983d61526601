"""The report of a sweep: its trials, what each parameter did, and which trials the scheduler cut."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from muster.experiment.quantities import counted
from muster.reports.curves import single_figure
from muster.reports.figures import Figure, plain, points
from muster.reports.groups import Group
from muster.reports.page import Page
from muster.reports.run_report import figure, moment
from muster.reports.seeds_report import run_table
from muster.sweeps.record import SweepRecord, Trial

FEWEST_TRIALS = 10
"""With fewer trials, a parameter's importance is mostly chance."""
BINS = 4


def sweep_page(group: Group, problems: list[str]) -> str:
    """Return the page of a sweep; without its record, that of the trials' runs."""
    record = group.sweep
    trials = record.trials if record else []
    counts = ", ".join(f"{count} {state}" for state, count in record.counts().items()) if record else ""
    lead = f"Sweep of {counted(len(trials) or len(group.runs), 'trial')}{': ' + counts if counts else ''}."
    page = Page(group.name, f"{lead} Written {moment(time.time())}.")
    if problems:
        page.heading("Missing or damaged")
        page.list(problems, "problems")
    if record is not None:
        _summary(page, record)
    page.heading("Learning")
    best = record.best() if record else None
    page.chart(single_figure(group.runs, best.name if best else None))
    if record is None:
        run_table(page, group.runs, by_evaluations=False)
        return page.html()
    page.heading("Parameters")
    _parameters(page, record)
    page.heading("Trials")
    _trials(page, record)
    return page.html()


def is_cut(trial: Trial) -> bool:
    """Whether the scheduler ended a trial early."""
    return trial.state == "stopped" and trial.exit_code == 0


def _summary(page: Page, record: SweepRecord) -> None:
    best = record.best()
    if best is None:
        return
    cut = [trial for trial in record.trials if is_cut(trial)]
    steps = sum(trial.steps for trial in record.trials)
    page.tiles(
        [
            (f"best {record.metric} ({record.mode}), {best.name}", figure(best.metric)),
            ("trials that the scheduler ended early", f"{len(cut)} of {len(record.trials)}"),
            ("steps of all trials", f"{steps:,}"),
        ]
    )
    page.table(("parameter", "best value"), [(key, _short(value)) for key, value in best.values.items()])


def _parameters(page: Page, record: SweepRecord) -> None:
    measured = [trial for trial in record.trials if trial.metric is not None]
    keys = list(dict.fromkeys(key for trial in measured for key in trial.values))
    if not keys:
        page.text("No trial has a result yet.", "note")
        return
    page.small_charts([_slice(record, measured, key) for key in keys])
    if len(measured) < FEWEST_TRIALS:
        page.text(f"{counted(len(measured), 'trial')} are too few to rank the parameters by importance.", "note")
        return
    shares = {key: importance([trial.values.get(key) for trial in measured], _metrics(measured)) for key in keys}
    rows = [(key, f"{share:.0%}") for key, share in sorted(shares.items(), key=lambda item: -item[1])]
    page.text(f"How much of the variation of {record.metric} (by rank) goes with each parameter by itself:")
    page.table(("parameter", "share"), rows, (1,))


def _slice(record: SweepRecord, trials: Sequence[Trial], key: str) -> Figure:
    """Draw the metric against one parameter; trials that were cut are marked."""
    raw = [trial.values.get(key) for trial in trials]
    is_numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in raw)
    traces = []
    for name, color, symbol, wanted in (("complete", 0, "circle", False), ("cut early", 1, "x", True)):
        chosen = [at for at, trial in enumerate(trials) if is_cut(trial) is wanted]
        if chosen:
            xs = [raw[at] if is_numeric else plain(_short(raw[at])) for at in chosen]
            marker = {"symbol": symbol, "color": f"@{color}", "size": 8}
            ys = [trials[at].metric for at in chosen]
            names = [plain(trials[at].name) for at in chosen]
            hover = "%{text}<br>%{x}: %{y:.4g}<extra></extra>"
            traces.append(points(name, xs, ys, color, marker=marker, text=names, hovertemplate=hover))
    axis: dict[str, Any] = {"title": {"text": plain(key)}}
    numbers = [float(value) for value in raw if is_numeric and value is not None]
    if numbers and min(numbers) > 0 and max(numbers) / min(numbers) >= 10:
        axis |= {"type": "log", "exponentformat": "power"}
    elif not is_numeric:
        axis["type"] = "category"
    layout = {"xaxis": axis, "hovermode": "closest"}
    return Figure(f"{record.metric} by {key}", traces, y=record.metric, height=260, layout=layout)


def importance(given: Sequence[Any], metrics: Sequence[float]) -> float:
    """Return which share of the variance of the metric's ranks goes with a parameter, in bins of its values."""
    ranks = np.argsort(np.argsort(metrics)).astype(float)
    try:
        numbers = np.array(given, np.float64)
        edges = np.unique(np.quantile(numbers, np.linspace(0, 1, BINS + 1)[1:-1]))
        bins = np.searchsorted(edges, numbers, side="right")
    except (TypeError, ValueError):
        bins = np.unique([str(value) for value in given], return_inverse=True)[1]
    groups = [ranks[bins == one] for one in np.unique(bins)]
    between = sum(len(group) * (group.mean() - ranks.mean()) ** 2 for group in groups)
    total = float(((ranks - ranks.mean()) ** 2).sum())
    return float(between) / total if total else 0.0


def _metrics(trials: Sequence[Trial]) -> list[float]:
    return [trial.metric for trial in trials if trial.metric is not None]


def _trials(page: Page, record: SweepRecord) -> None:
    sign = -1 if record.mode == "max" else 1
    keys = list(dict.fromkeys(key for trial in record.trials for key in trial.values))
    ordered = sorted(record.trials, key=lambda trial: (trial.metric is None, sign * (trial.metric or 0.0)))
    rows = [
        (
            trial.name,
            "cut early" if is_cut(trial) else trial.state,
            *(_short(trial.values.get(key)) for key in keys),
            f"{trial.steps:,}",
            figure(trial.metric),
            trial.reason,
        )
        for trial in ordered
    ]
    numbers = range(2, len(keys) + 4)
    page.table(("trial", "state", *keys, "steps", record.metric, "reason"), rows, numbers)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
