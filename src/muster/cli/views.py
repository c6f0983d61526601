"""How a run looks while it trains: live in a terminal, lines elsewhere."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.constrain import Constrain
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from muster.cli.screen import Pace, figure, print_text, sparkline
from muster.experiment.quantities import counted, format_duration
from muster.experiment.schema import AlgorithmSection
from muster.files.shown import short_name, short_path
from muster.runs.status import Status
from muster.stepping.evaluation import Evaluation
from muster.training.listener import RunStart
from muster.training.progress import Progress
from muster.training.stopping import TimeLeft, nearest_stop

MOST_ALIKE = 5
"""Failures that differ in their numbers at most and are printed."""
_NUMBER = re.compile(r"[-+]?\d[\d.]*(e[-+]?\d+)?")
SPARKLINE_WIDTH = 40
BAR_WIDTH = 40
LABEL_WIDTH = 9
GAP = 2
"""Between the columns of the live view."""
MARGIN = 3
"""Kept free at the right: a terminal prints ^C there, which in a full line would begin a new one."""


class View:
    """Prints a line now and then; the base of the live view."""

    def __init__(self, console: Console, *, verbose: bool, quiet: bool) -> None:
        self._console = console
        self._verbose = verbose
        self._quiet = quiet
        self.start: RunStart | None = None
        """How the last run started; None before it has."""
        self._pace = Pace()
        self._told: Counter[str] = Counter()

    def __enter__(self) -> View:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the screen as it is."""

    def started(self, start: RunStart) -> None:
        """Say what is trained, where, and with what."""
        self.start = start
        if not self._quiet:
            print_text(self._console, headline(start))

    def iterated(self, row: dict[str, Any], progress: Progress) -> None:
        """Print a line now and then; each if verbose."""
        if not self._quiet and (self._verbose or self._pace.is_due()):
            self._console.print(line(row, with_all=self._verbose))

    def evaluated(self, iteration: int, result: Evaluation) -> None:
        """Print what an evaluation came to."""
        if not self._quiet:
            self._console.print(f"evaluated at iteration {iteration}: {evaluation_text(result)}")

    def show_all(self, statuses: Sequence[Status]) -> None:
        """Print now and then how far runs are that train side by side."""
        if not self._quiet and any(status.iteration for status in statuses) and self._pace.is_due():
            self._console.print("  ".join(map(short_status, statuses)))

    def noticed(self, message: str) -> None:
        """Print a notice."""
        if not self._quiet:
            print_text(self._console, message, mark="note: ", style="yellow")

    def failed(self, error: str, traceback: str) -> None:
        """Print a failure of the simulator: the first of its kind with its traceback, only some unless verbose.

        One that ends the run is the command's error; the others are on record in the run's folder.
        """
        kind = _NUMBER.sub("#", error.partition(" (in ")[0])
        self._told[kind] += 1
        if self._quiet or (self._told[kind] > MOST_ALIKE and not self._verbose):
            return
        print_text(self._console, error, mark="simulator failed: ", style="bold red")
        if self._told[kind] == 1 and traceback:
            self._console.print(traceback.rstrip())
        if self._told[kind] == MOST_ALIKE and not self._verbose:
            self.noticed("further failures like this one are only recorded; --verbose prints all")


class LiveView(View):
    """A few lines that are kept up to date in place."""

    def __init__(self, console: Console, *, verbose: bool) -> None:
        super().__init__(console, verbose=verbose, quiet=False)
        self._is_over = False
        self._statuses: Sequence[Status] = ()
        self._row: dict[str, Any] = {}
        self._progress = Progress()
        self._returns: list[float] = []
        self._evaluation = ""
        self._time_left: TimeLeft | None = None
        self._seconds = {"sampling": 0.0, "learning": 0.0, "waiting": 0.0}
        self._began: tuple[float, int] = (0.0, 0)
        """Training time and steps before the first iteration that was seen."""
        # It draws itself at once.
        self._live = Live(console=console, refresh_per_second=8, get_renderable=self._render)

    def __enter__(self) -> View:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_over = True
        self._live.stop()

    def started(self, start: RunStart) -> None:
        super().started(start)
        self._returns, self._row, self._evaluation = [], {}, ""
        self._time_left = TimeLeft(start.experiment.stop)
        self._seconds = dict.fromkeys(self._seconds, 0.0)

    def iterated(self, row: dict[str, Any], progress: Progress) -> None:
        if not self._row:
            first = self.start.batch_size if self.start else 0
            self._began = (row["time/total"] - row["time/sample"] - row["time/learn"], progress.steps - first)
        self._row, self._progress = row, progress
        if self._time_left is not None:
            self._time_left.add(progress, has_learned=row["time/learn"] > 0)
        if progress.return_mean is not None:
            self._returns.append(progress.return_mean)
        self._seconds["sampling"] += row["time/sample"] - row["time/wait"]
        self._seconds["learning"] += row["time/learn"]
        self._seconds["waiting"] += row["time/wait"]

    def evaluated(self, iteration: int, result: Evaluation) -> None:
        self._evaluation = f"{evaluation_text(result)}, at iteration {iteration}"

    def show_all(self, statuses: Sequence[Status]) -> None:
        self._statuses = statuses

    def _render(self) -> RenderableType:
        if self._statuses:
            return Group(*map(short_status, self._statuses))
        if self.start is None or not self._row:
            return Text("" if self._is_over else "starting ...", style="dim")
        stop = self.start.experiment.stop
        fraction, text = nearest_stop(stop, self._progress)
        if self._time_left is not None and (left := self._time_left.seconds()) is not None:
            text += f", {format_duration(left)} left"
        table = Table.grid(padding=(0, GAP))
        table.add_column(style="cyan", min_width=LABEL_WIDTH)
        table.add_column()
        bar = Table.grid(padding=(0, GAP))
        width = self._live.console.width - MARGIN
        room = width - LABEL_WIDTH - len(text) - 2 * GAP
        bar.add_row(ProgressBar(total=1.0, completed=fraction, width=max(1, min(BAR_WIDTH, room))), text)
        table.add_row("progress", bar)
        table.add_row("return", self._return_text())
        if self._evaluation:
            table.add_row("evaluated", self._evaluation)
        table.add_row("speed", f"{self._steps_per_second():,.0f} steps/s, iteration {self._progress.iteration}")
        table.add_row("time", self._time_text())
        if failures := self._failures_text():
            table.add_row("failures", failures)
        return Constrain(table, width)

    def _return_text(self) -> Text:
        row = self._row
        if row["return/mean"] is None:
            return Text("no episode has ended yet", style="dim")
        spread = f"({figure(row['return/min'])} to {figure(row['return/max'])})"
        return Text.assemble(
            (figure(row["return/mean"]), "bold green"),
            f" {spread}  ",
            (sparkline(self._returns, SPARKLINE_WIDTH), "green"),
        )

    def _steps_per_second(self) -> float:
        seconds, steps = self._began
        return (self._progress.steps - steps) / max(1e-9, self._progress.seconds - seconds)

    def _time_text(self) -> str:
        total = sum(self._seconds.values()) or 1.0
        return ", ".join(f"{name} {100 * part / total:.0f} %" for name, part in self._seconds.items())

    def _failures_text(self) -> Text | None:
        simulator, worker = self._row["failures/simulator"], self._row["failures/worker"]
        if not simulator and not worker:
            return None
        return Text(f"simulator {simulator}, worker {worker}", style="yellow")


def headline(start: RunStart) -> str:
    """Say in a line or two what is trained, where, and with what."""
    experiment, algorithm = start.experiment, start.experiment.algorithm
    where = counted(start.num_workers, "worker") if start.num_workers else "in this process"
    engine = " (RLlib)" if algorithm.engine == "rllib" else ""
    text = f"{algorithm.name}{engine} on {short_name(experiment.env.id)}, seed {experiment.seed}, {where}, "
    text += f"{counted(start.num_simulators, 'simulator')}, {start.batch_size:,} steps an iteration"
    if isinstance(algorithm, AlgorithmSection) and start.batch_size != algorithm.train_batch_size:
        text += f" (train_batch_size {algorithm.train_batch_size:,} in whole fragments)"
    resumed = f", resumed at iteration {start.from_iteration}" if start.from_iteration else ""
    return f"{text}\nrun folder {short_path(start.run)}{resumed}"


def short_status(status: Status) -> str:
    """Say in a few words how far a run is."""
    if not status.iteration:
        return f"{status.run}: {status.state}"
    return f"{status.run}: {status.state}, {status.steps:,} steps, return {figure(status.return_mean)}"


def evaluation_text(result: Evaluation) -> str:
    """Say what a deterministic evaluation came to."""
    spread = f"{figure(result.return_mean)} ± {figure(result.return_std)}"
    metrics = "".join(f", {name} {figure(value)}" for name, value in result.metrics.items())
    return f"return {spread} over {counted(result.episodes, 'episode')}{metrics}"


def line(row: dict[str, Any], *, with_all: bool) -> str:
    """Write a row of the record as a line."""
    text = (
        f"iteration {row['iteration']:>5}  steps {row['steps']:>10,}  return {figure(row['return/mean']):>9}  "
        f"length {figure(row['length/mean']):>7}  {format_duration(row['time/total']):>7}"
    )
    if row["failures/simulator"] or row["failures/worker"]:
        text += f"  failures {row['failures/simulator']}+{row['failures/worker']}"
    if with_all:
        rest = [f"{k} {figure(v)}" for k, v in row.items() if k.startswith(("policy/", "value/", "learner/"))]
        text += "  " + "  ".join(rest)
    return text
