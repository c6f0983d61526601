"""A run as an object, and the list of all runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.experiment import Experiment
from muster.experiment.loading import load_saved
from muster.runs.files import read_json_lines
from muster.runs.finding import find_checkpoint, find_run, list_runs
from muster.runs.folder import runs_dir as folder_of_runs
from muster.runs.metrics import read_metrics
from muster.runs.status import Status, read_status
from muster.training.call import TrainResult

if TYPE_CHECKING:
    from muster.api.evaluating import RunEvaluation
    from muster.api.pictures import Picture
    from muster.policies import Policy


class Run:
    """A run, by its name or folder, or by what `muster.train` returned; it reads the run's files when asked.

    Raises:
        InputError: if there is none, naming those there are.
    """

    def __init__(self, run: str | Path | TrainResult | Run, runs_dir: str | Path | None = None) -> None:
        self._folder = find_run(name_of_run(run), folder_of_runs(runs_dir))

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self._folder.path

    @property
    def name(self) -> str:
        """The name of that folder."""
        return self._folder.name

    @property
    def status(self) -> Status:
        """State, reason, iteration, steps and return, as they are now."""
        return read_status(self._folder.status) or Status("unknown")

    @property
    def state(self) -> str:
        """The state alone: running, finished, stopped, failed, ..."""
        return self.status.shown_state

    @property
    def experiment(self) -> Experiment:
        """The resolved experiment."""
        return load_saved(self._folder.experiment).experiment

    @property
    def metrics(self) -> Any:
        """The rows of metrics.csv: a DataFrame if pandas is installed, else a list of dicts; None for no value."""
        rows = [{name: _number(text) for name, text in row.items()} for row in read_metrics(self._folder.metrics)]
        return as_frame(rows)

    @property
    def evaluations(self) -> Any:
        """The deterministic evaluations during training, in the same form."""
        return as_frame(read_json_lines(self._folder.evaluations))

    def policy(self, checkpoint: str | int = "best", *, trust: bool = False) -> Policy:
        """Load the policy of a checkpoint: `best`, `latest` or an iteration.

        Raises:
            InputError: if there is no such checkpoint, or another user could have changed it.
        """
        from muster.policies import load_policy

        _, folder = find_checkpoint(self.path, str(checkpoint), self.path.parent, lambda _: None)
        return load_policy(folder, trust=trust)

    def evaluate(self, episodes: int = 100, **options: Any) -> RunEvaluation:
        """Let the policy act in some episodes; the options are those of `muster.evaluate`."""
        from muster.api.evaluating import evaluate

        return evaluate(self, episodes, **options)

    def plot(self, *columns: str) -> Picture:
        """Draw columns of the metrics over the steps; default: the return.

        Raises:
            InputError: if there is no such column.
        """
        from muster.api.pictures import Picture
        from muster.reports.columns import lines_of
        from muster.reports.history import read_history
        from muster.reports.pictures import draw_columns

        history, wanted = read_history(self._folder), list(columns) or ["return/mean"]
        return Picture(draw_columns(self.name, lines_of([history], wanted)), f"{self.name}: {', '.join(wanted)}")

    def __repr__(self) -> str:
        status = self.status
        parts = [f"{self.name!r}", self.state]
        if status.iteration:
            parts.append(f"{status.steps:,} steps")
        if status.return_mean is not None:
            parts.append(f"return {status.return_mean:.4g}")
        return f"Run({', '.join(parts)})"


def runs(runs_dir: str | Path | None = None) -> list[Run]:
    """Return all runs that can be read, the newest first."""
    return [Run(folder.path) for folder in list_runs(folder_of_runs(runs_dir)) if folder.exists()]


def name_of_run(run: str | Path | TrainResult | Run) -> str | Path:
    """Return the name or folder of a run, however it is given."""
    if isinstance(run, TrainResult):
        return run.run
    return run.path if isinstance(run, Run) else run


def _number(text: str) -> float | int | None:
    if not text:
        return None
    return int(text) if text.lstrip("-").isdecimal() else float(text)


def as_frame(rows: list[dict[str, Any]]) -> Any:
    """Return rows as a DataFrame if pandas is installed, else as they are."""
    try:
        import pandas
    except ImportError:
        return rows
    return pandas.DataFrame(rows)
