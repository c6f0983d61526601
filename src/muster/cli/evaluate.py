"""`muster evaluate`: how good is what a run learned?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from muster.cli.options import AsJson, Checkpoint, Run, RunsDir
from muster.cli.screen import console, figure, print_json, show_notice
from muster.errors import SimulatorError
from muster.experiment.loading import load_experiment
from muster.experiment.quantities import counted
from muster.runs.finding import find_checkpoint
from muster.runs.folder import runs_dir as folder_of_runs


def evaluate(
    run: Run,
    episodes: Annotated[int, typer.Option(min=1, help="How many episodes.")] = 100,
    checkpoint: Checkpoint = "best",
    stochastic: Annotated[
        bool, typer.Option("--stochastic", help="Draw the actions instead of taking the likeliest.")
    ] = False,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the episodes; default: the run's.")] = None,
    runs_dir: RunsDir = None,
    as_json: AsJson = False,
) -> None:
    """Let a run's best policy act for some episodes and print its mean return."""
    from muster.policies import load_policy
    from muster.training.evaluation import evaluate
    from muster.training.failures import FailureRecord
    from muster.training.preparation import simulator_of

    folder, path = find_checkpoint(run, checkpoint, folder_of_runs(runs_dir), show_notice)
    experiment = load_experiment(folder.experiment).experiment
    simulator = simulator_of(experiment)
    try:
        result = evaluate(
            load_policy(path),
            simulator,
            episodes,
            experiment.seed if seed is None else seed,
            deterministic=not stochastic,
        )
    except SimulatorError as error:
        raise FailureRecord(experiment, simulator, folder).explained(error) from None
    if as_json:
        print_json({"run": str(folder.path), "checkpoint": str(path), **asdict(result)})
        return
    console().print(
        f"{folder.name}, checkpoint {path.name}: return {figure(result.return_mean)} "
        f"± {figure(result.return_std)}, length {figure(result.length_mean)}, "
        f"over {counted(result.episodes, 'episode')}"
    )
