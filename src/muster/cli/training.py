"""Training on the command line: a view while it runs, then the result and what to do next."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from muster.cli.screen import console, figure, print_json
from muster.errors import MusterError
from muster.experiment.loading import LoadedExperiment
from muster.experiment.quantities import counted
from muster.extras import is_installed

if TYPE_CHECKING:
    from muster.cli.views import View
    from muster.training.call import TrainResult
    from muster.training.interruption import InterruptionWatch
    from muster.training.seeds import SeedsResult


@dataclass(frozen=True)
class Asked:
    """What is asked of one training besides its experiment."""

    runs_dir: str | Path | None = None
    resume: bool = False
    weights_from: str | None = None
    trust: bool = False
    seeds: int | None = None


@dataclass(frozen=True)
class Shown:
    """How much is printed, and for whom."""

    as_json: bool = False
    quiet: bool = False
    verbose: bool = False


def train_and_show(loaded: LoadedExperiment, asked: Asked, shown: Shown) -> NoReturn:
    """Train, print what comes of it, and end the command with the run's exit code.

    Raises:
        MusterError: if the run fails.
        typer.Exit: else.
    """
    from muster.training.interruption import InterruptionWatch

    with InterruptionWatch() as watch:
        view = _view(shown)
        try:
            result = _train(loaded, asked, shown, view, watch)
        except MusterError as error:
            if shown.as_json and error.result is not None:
                print_json(asdict(error.result))
            raise
        if shown.as_json:
            print_json(asdict(result))
        elif asked.seeds is None:
            _show_result(result, view, quiet=shown.quiet)
        else:
            _show_seeds(result)
    raise typer.Exit(result.exit_code)


def _view(shown: Shown) -> View:
    from muster.cli.views import LiveView, View

    screen = console(stderr=shown.as_json)
    if screen.is_terminal and not (shown.as_json or shown.quiet or shown.verbose):
        return LiveView(screen, verbose=False)
    return View(screen, verbose=shown.verbose, quiet=shown.quiet)


def _train(loaded: LoadedExperiment, asked: Asked, shown: Shown, view: View, watch: InterruptionWatch) -> Any:
    from muster.training import TrainOptions, train
    from muster.training.seeds import train_seeds

    options = TrainOptions(
        asked.runs_dir, asked.resume, asked.weights_from, show_worker_output=shown.verbose, trust=asked.trust
    )
    with view:
        if asked.seeds is None:
            return train(loaded, options=options, listener=view, watch=watch)
        return train_seeds(loaded, asked.seeds, options, view, watch, view.show_all)


def _show_result(result: TrainResult, view: View, *, quiet: bool) -> None:
    screen = console()
    screen.print(f"{result.state}: {result.reason}")
    iterations = counted(result.iterations, "iteration")
    screen.print(f"{result.steps:,} steps in {iterations}, mean return {figure(result.return_mean)}")
    if result.checkpoint is None:
        return
    screen.print(f"results in {result.run}")
    if quiet:
        return
    if result.exit_code:
        screen.print(f"\n  muster resume {result.run}  # continue")
        return
    hints = [(f"muster evaluate {result.run}", "how good is it?")]
    if is_installed("video") and (view.start is None or view.start.can_be_filmed):
        hints.append((f"muster play {result.run} --video v.mp4", "what does it do?"))
    how = "report" if is_installed("report") else "show"
    hints.append((f"muster {how} {result.run}", "how did it learn?"))
    width = max(len(command) for command, _ in hints)
    screen.print("\n" + "\n".join(f"  {command:<{width}}  # {question}" for command, question in hints))


def _show_seeds(result: SeedsResult) -> None:
    from muster.training.seeds import average_name

    screen = console()
    for run, evaluation in zip_longest(result.runs, result.evaluations):
        text = f"{run.run}: {run.state}, training return {figure(run.return_mean)}"
        if evaluation is not None:
            text += f", evaluated {figure(evaluation.return_mean)} ± {figure(evaluation.return_std)}"
        screen.print(text)
    if result.exit_code:
        name = Path(result.folder).name
        screen.print(f"\n  the same command with --name {name} --resume continues all seeds")
        return
    how_many, average = counted(len(result.runs), "seed"), average_name(len(result.runs))
    training = _mean_and_interval(result.return_mean, result.interval)
    if not result.evaluations:
        screen.print(f"{how_many}: {average} training return {training}")
        return
    evaluated = _mean_and_interval(result.evaluation_mean, result.evaluation_interval)
    episodes = counted(result.evaluations[0].episodes, "episode")
    screen.print(f"{how_many}, the best policy of each in the same {episodes}: {average} return {evaluated}")


def _mean_and_interval(mean: float | None, interval: tuple[float, float] | None) -> str:
    if interval is None:
        return figure(mean)
    low, high = interval
    return f"{figure(mean)}, 95 % interval {figure(low)} to {figure(high)}"
