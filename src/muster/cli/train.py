"""`muster train`: train an agent."""

from __future__ import annotations

from typing import Annotated

import typer

from muster.cli.completion import complete_algorithm
from muster.cli.help import EXPERIMENT, RUN
from muster.cli.named_run import is_only_run, load_named_run, names_run
from muster.cli.options import (
    AsJson,
    Gpus,
    Quiet,
    RunsDir,
    Settings,
    StopIterations,
    StopReturn,
    StopSteps,
    StopTime,
    Target,
    Trust,
    Verbose,
    WeightsFrom,
    Workers,
    key_option,
    number_or_word,
    overrides_of,
)
from muster.cli.training import Asked, Shown, train_and_show
from muster.errors import InputError
from muster.experiment.loading import load_experiment


def train(
    target: Target,
    algorithm: Annotated[
        str | None, key_option("--algorithm", key="algorithm.name", completion=complete_algorithm)
    ] = None,
    engine: Annotated[str | None, key_option("--engine", key="algorithm.engine")] = None,
    workers: Workers = None,
    gpus: Gpus = None,
    seed: Annotated[int | None, key_option("--seed", key="seed")] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, help="Train this many seeds, one run each, in one folder.", rich_help_panel=EXPERIMENT
        ),
    ] = None,
    name: Annotated[str | None, key_option("--name", key="name", panel=RUN)] = None,
    runs_dir: RunsDir = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Continue the run of that name if there is one, else start it.", rich_help_panel=RUN
        ),
    ] = False,
    weights_from: WeightsFrom = None,
    trust: Trust = False,
    stop_steps: StopSteps = None,
    stop_iterations: StopIterations = None,
    stop_time: StopTime = None,
    stop_return: StopReturn = None,
    settings: Settings = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Train an agent in a simulator.

    Ctrl-C saves and stops; --resume continues from there.
    """
    given = (
        ("--algorithm", "algorithm.name", algorithm),
        ("--engine", "algorithm.engine", engine),
        ("--workers", "resources.workers", number_or_word(workers)),
        ("--gpus", "resources.gpus", gpus),
        ("--seed", "seed", seed),
        ("--name", "name", name),
        ("--stop-steps", "stop.steps", stop_steps),
        ("--stop-iterations", "stop.iterations", stop_iterations),
        ("--stop-time", "stop.time", stop_time),
        ("--stop-return", "stop.return", stop_return),
    )
    overrides = overrides_of(given, settings)
    if resume and weights_from:
        raise InputError("--resume and --from: give one of them; --from always starts a new run")
    shown = Shown(as_json, quiet, verbose)
    if resume and name is None and seeds is None and names_run(target, runs_dir):
        loaded, folder = load_named_run(target, runs_dir, overrides)
        train_and_show(loaded, Asked(folder, resume=True, trust=trust), shown)
    if is_only_run(target, runs_dir):
        raise InputError(f"{target}: is a run, not an experiment file or simulator\n    muster resume {target}")
    loaded = load_experiment(target, overrides)
    train_and_show(loaded, Asked(runs_dir, resume, weights_from, trust, seeds), shown)
