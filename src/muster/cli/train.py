"""`muster train`: train an agent."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from muster.cli.options import AsJson, RunsDir, Settings, Target, Trust, WeightsFrom, whole_number
from muster.cli.screen import console, figure, print_json
from muster.errors import InputError, MusterError
from muster.experiment.loading import LoadedExperiment, Override, load_experiment, parse_set
from muster.experiment.quantities import counted
from muster.experiment.schema import describe


def _option(*flags: str, key: str) -> Any:
    """Make the option of an experiment's key; its help is the key's description."""
    return typer.Option(*flags, help=describe(key), show_default=False)


def train(
    target: Target,
    algorithm: Annotated[str | None, _option("--algorithm", key="algorithm.name")] = None,
    engine: Annotated[str | None, _option("--engine", key="algorithm.engine")] = None,
    workers: Annotated[str | None, _option("--workers", key="resources.workers")] = None,
    gpus: Annotated[float | None, _option("--gpus", key="resources.gpus")] = None,
    seed: Annotated[int | None, _option("--seed", key="seed")] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Train this many seeds, one run each, in one folder.")
    ] = None,
    name: Annotated[str | None, _option("--name", key="name")] = None,
    runs_dir: RunsDir = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run of that name if there is one, else start it.")
    ] = False,
    weights_from: WeightsFrom = None,
    trust: Trust = False,
    stop_steps: Annotated[str | None, _option("--stop-steps", key="stop.steps")] = None,
    stop_iterations: Annotated[str | None, _option("--stop-iterations", key="stop.iterations")] = None,
    stop_time: Annotated[str | None, _option("--stop-time", key="stop.time")] = None,
    stop_return: Annotated[float | None, _option("--stop-return", key="stop.return")] = None,
    settings: Settings = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print errors and the result only.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print every iteration, and what workers print.")
    ] = False,
) -> None:
    """Train an agent in a simulator.

    Ctrl-C saves and stops; --resume continues from there.
    """
    overrides = [
        Override(key, value, flag)
        for flag, key, value in (
            ("--algorithm", "algorithm.name", algorithm),
            ("--engine", "algorithm.engine", engine),
            ("--workers", "resources.workers", _number_or_word(workers)),
            ("--gpus", "resources.gpus", gpus),
            ("--seed", "seed", seed),
            ("--name", "name", name),
            ("--stop-steps", "stop.steps", stop_steps),
            ("--stop-iterations", "stop.iterations", stop_iterations),
            ("--stop-time", "stop.time", stop_time),
            ("--stop-return", "stop.return", stop_return),
        )
        if value is not None
    ]
    overrides += [parse_set(setting) for setting in settings or []]
    if resume and weights_from:
        raise InputError("--resume and --from: give one of them; --from always starts a new run")
    loaded = load_experiment(target, overrides)

    from muster.training import TrainOptions
    from muster.training.interruption import InterruptionWatch

    options = TrainOptions(runs_dir, resume, weights_from, show_worker_output=verbose, trust=trust)
    with InterruptionWatch() as watch:
        try:
            result = _train(loaded, seeds, options, watch, as_json=as_json, quiet=quiet, verbose=verbose)
        except MusterError as error:
            if as_json and error.result is not None:
                print_json(asdict(error.result))
            raise
        if as_json:
            print_json(asdict(result))
        elif seeds is None:
            _show_result(result)
        else:
            _show_seeds(result)
    raise typer.Exit(result.exit_code)


def _number_or_word(text: str | None) -> int | str | None:
    number = whole_number(text) if text is not None else None
    return text if number is None else number


def _train(
    loaded: LoadedExperiment,
    seeds: int | None,
    options: Any,
    watch: Any,
    *,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> Any:
    from muster.cli.views import LiveView, View
    from muster.training import train
    from muster.training.seeds import train_seeds

    screen = console(stderr=as_json)
    live = screen.is_terminal and not (as_json or quiet or verbose)
    view = LiveView(screen, verbose=False) if live else View(screen, verbose=verbose, quiet=quiet)
    with view:
        if seeds is None:
            return train(loaded, options=options, listener=view, watch=watch)
        return train_seeds(loaded, seeds, options, view, watch, view.show_all)


def _show_result(result: Any) -> None:
    screen = console()
    screen.print(f"{result.state}: {result.reason}")
    iterations = counted(result.iterations, "iteration")
    screen.print(f"{result.steps:,} steps in {iterations}, mean return {figure(result.return_mean)}")
    if result.checkpoint is None:
        return
    screen.print(f"results in {result.run}\n")
    if result.exit_code:
        screen.print("continue with the same command and --resume")
        return
    screen.print(f"  muster evaluate {result.run}            # how good is it?")
    screen.print(f"  muster play {result.run} --video v.mp4  # what does it do?")
    screen.print(f"  tensorboard --logdir {result.run}       # how did it learn?")


def _show_seeds(result: Any) -> None:
    from muster.training.seeds import average_name

    screen = console()
    evaluations = result.evaluations or [None] * len(result.runs)
    for run, evaluation in zip(result.runs, evaluations, strict=True):
        text = f"{run.run}: {run.state}, training return {figure(run.return_mean)}"
        if evaluation is not None:
            text += f", evaluated {figure(evaluation.return_mean)} ± {figure(evaluation.return_std)}"
        screen.print(text)
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
