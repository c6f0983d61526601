"""How a sweep looks while it runs: a live table of its trials in a terminal, lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from muster.cli.screen import Pace, figure, print_text
from muster.experiment.schema import Experiment
from muster.files.shown import short_name, short_path
from muster.sweeps.record import SweepRecord, Trial

ROWS_BESIDES_TRIALS = 4
_STYLES = {"running": "cyan", "finished": "green", "failed": "red", "stopped": "yellow", "queued": "dim"}
_ORDER = ("running", "failed", "finished", "stopped", "queued")


class SweepView:
    """Prints a line when a trial's state changes, and now and then on its progress."""

    def __init__(self, console: Console, *, verbose: bool, quiet: bool) -> None:
        self._console = console
        self._verbose = verbose
        self._quiet = quiet
        self._states: dict[str, str] = {}
        self._paces: dict[str, Pace] = {}
        self._told: set[str] = set()

    def __enter__(self) -> SweepView:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the screen as it is."""

    def started(self, record: SweepRecord, experiment: Experiment) -> None:
        """Say what is swept, how, and where."""
        if self._quiet:
            return
        self._states = {trial.name: trial.state for trial in record.trials}
        print_text(self._console, headline(record, experiment))

    def changed(self, record: SweepRecord, trial: str) -> None:
        """Print a line if the state changed, and now and then on a trial's progress."""
        known = record.find(trial)
        is_news = self._states.get(trial) != known.state
        self._states[trial] = known.state
        is_due = self._paces.setdefault(trial, Pace()).is_due()
        if not self._quiet and (is_news or is_due or self._verbose):
            self._console.print(line(known, record.metric))

    def noticed(self, message: str) -> None:
        """Print a notice."""
        if not self._quiet:
            print_text(self._console, message, mark="note: ", style="yellow")

    def failed(self, trial: str, details: str) -> None:
        """Print why a trial failed: the whole message once, the reason alone when it is known."""
        first = details.partition("\n")[0]
        text = first if first in self._told else details.rstrip()
        self._told.add(first)
        self._console.print(Text.assemble((f"{trial} failed: ", "bold red"), text))


class LiveSweepView(SweepView):
    """A table of all trials that is kept up to date in place; the running ones first if it does not fit."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, verbose=False, quiet=False)
        self._record: SweepRecord | None = None
        self._live = Live(
            console=console, refresh_per_second=4, get_renderable=self._render, vertical_overflow="crop"
        )

    def __enter__(self) -> SweepView:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._live.stop()

    def started(self, record: SweepRecord, experiment: Experiment) -> None:
        super().started(record, experiment)
        self._record = record

    def changed(self, record: SweepRecord, trial: str) -> None:
        """The table shows it."""

    def _render(self) -> RenderableType:
        if self._record is None:
            return Text("starting ...", style="dim")
        return trial_table(self._record, self._console.height - ROWS_BESIDES_TRIALS)


def headline(record: SweepRecord, experiment: Experiment) -> str:
    """Say what is swept, how, and where."""
    section = experiment.sweep
    assert section is not None
    done = sum(trial.is_done for trial in record.trials)
    resumed = f", resumed with {done} of {len(record.trials)} trials done" if record.trials else ""
    how = section.search + (f" search, {section.scheduler}" if section.scheduler != "none" else " search")
    return (
        f"{experiment.algorithm.name} on {short_name(experiment.env.id)}: {', '.join(section.parameters)}\n"
        f"{how}, {section.mode} of {section.metric}\nsweep folder {short_path(record.folder.path)}{resumed}"
    )


def line(trial: Trial, metric: str) -> str:
    """Write a trial as a line."""
    values = "  ".join(f"{key} {short(value)}" for key, value in trial.values.items())
    reason = f"  {trial.reason}" if trial.reason else ""
    return (
        f"{trial.name}  {trial.state:<8}  iteration {trial.iteration:>5}  steps {trial.steps:>10,}  "
        f"{metric} {figure(trial.metric):>9}  {values}{reason}"
    )


def trial_table(record: SweepRecord, height: int) -> Table:
    """Draw the trials; if they are too many, those that run and the best come first."""
    best = record.best()
    keys = list(dict.fromkeys(key for trial in record.trials for key in trial.values))
    table = Table(box=None, pad_edge=False)
    table.add_column("trial", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for heading in (*map(_last_name, keys), "iteration", "steps", record.metric):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, overflow="ellipsis", ratio=1)
    trials = record.trials
    if len(trials) > height:
        ranks = {state: rank for rank, state in enumerate(_ORDER)}
        trials = sorted(trials, key=lambda trial: (trial is not best, ranks.get(trial.state, 0)))[: height - 1]
    for trial in trials:
        table.add_row(
            trial.name,
            Text(trial.state, style=_STYLES.get(trial.state, "")),
            *(short(trial.values.get(key)) for key in keys),
            str(trial.iteration),
            f"{trial.steps:,}",
            Text(figure(trial.metric), style="bold green" if trial is best else ""),
            "← best" if trial is best else _note(trial),
        )
    # Where the terminal is too narrow, the last column alone is cut.
    for column in table.columns[:-1]:
        column.min_width = max(len(str(cell)) for cell in (column.header, *column.cells))
    if len(record.trials) > len(trials):
        counts = ", ".join(f"{count} {state}" for state, count in record.counts().items())
        table.add_row(f"… {len(record.trials)} in all: {counts}")
    return table


def _note(trial: Trial) -> str:
    """Return what a trial's state does not say by itself."""
    is_plain = trial.state == "finished" or trial.reason.startswith("stopped early")
    return "" if is_plain else trial.reason


def short(value: Any) -> str:
    """Write a value as a person reads it."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _last_name(key: str) -> str:
    return key.rpartition(".")[2]
