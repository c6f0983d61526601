"""The report of the runs of several seeds: what they give together, and each by itself."""

from __future__ import annotations

import time

from muster.experiment.quantities import counted, format_duration
from muster.reports.curves import group_figure, single_figure
from muster.reports.experiments import differences, from_defaults
from muster.reports.groups import Group, all_evaluated, final_return, measure
from muster.reports.history import RunHistory
from muster.reports.page import Page
from muster.reports.run_report import figure, moment
from muster.statistics import FEWEST_SEEDS, interval_of_mean


def seeds_page(group: Group, problems: list[str]) -> str:
    """Return the page of a folder of runs."""
    experiment = next((run.record.experiment for run in group.runs if run.record.experiment), None)
    what = f"{experiment.algorithm.name} on {experiment.env.id}, " if experiment else ""
    page = Page(group.name, f"{what}{len(group.runs)} runs. Written {moment(time.time())}.")
    by_evaluations = all_evaluated([group])
    scores = group.scores(by_evaluations=by_evaluations)
    if len(scores):
        found = interval_of_mean(scores)
        tiles = [
            ("interquartile mean of final returns", figure(found.value)),
            ("its 95 % interval", f"{figure(found.low)} to {figure(found.high)}"),
            ("worst and best run", f"{figure(float(scores.min()))}, {figure(float(scores.max()))}"),
        ]
        page.tiles(tiles)
    if len(scores) < FEWEST_SEEDS:
        few = f"{counted(len(scores), 'run')} with a return: too few for a reliable interval"
        page.text(f"{few}; take at least {FEWEST_SEEDS} seeds.", "problems")
    if problems:
        page.heading("Missing or damaged")
        page.list(problems, "problems")
    page.heading("Learning")
    page.chart(group_figure([(group.name, group.runs)]))
    page.chart(single_figure(group.runs))
    page.heading("Runs")
    run_table(page, group.runs, by_evaluations=by_evaluations)
    page.text(measure(by_evaluations), "note")
    if experiment is not None:
        page.heading("Experiment")
        changed = from_defaults(experiment)
        skipped = ("name", "seed", "env.paths")
        rows = [(key, value, default) for key, (value, default) in changed.items() if key not in skipped]
        page.table(("key", "value", "default"), rows)
        difference_table(page, group.runs)
    return page.html()


def run_table(page: Page, runs: list[RunHistory], *, by_evaluations: bool) -> None:
    """Add a line for each run."""
    rows = []
    for run in runs:
        status = run.record.status
        score = final_return(run, by_evaluations=by_evaluations)
        took = run.column("time/total")
        seconds = format_duration(float(took[-1])) if len(took) and took[-1] == took[-1] else "-"
        rows.append(
            (run.folder.name, status.shown_state, f"{status.steps:,}", figure(score), seconds, status.reason)
        )
    page.table(("run", "state", "steps", "final return", "training time", "reason"), rows, (2, 3, 4))


def difference_table(page: Page, runs: list[RunHistory]) -> None:
    """Add the keys in which the runs' experiments differ, besides name and seed."""
    known = [run for run in runs if run.record.experiment is not None]
    found = differences([run.record.experiment for run in known if run.record.experiment is not None])
    rows = [(key, *values) for key, values in found.items() if key not in ("name", "seed", "env.paths")]
    if rows:
        page.text("What differs between the runs:")
        page.table(("key", *(run.folder.name for run in known)), rows)
