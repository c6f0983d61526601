"""`muster evaluate`: how good is what a run learned?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from muster.cli.options import AsJson, Checkpoint, Run, RunsDir, Trust
from muster.cli.screen import console, figure, print_json, show_notice
from muster.experiment.quantities import LARGEST_SEED, counted
from muster.runs.finding import find_checkpoint, require_own_run
from muster.runs.folder import runs_dir as folder_of_runs
from muster.runs.reading import read_experiment


def evaluate(
    run: Run,
    episodes: Annotated[int, typer.Option(min=1, help="How many episodes.")] = 100,
    checkpoint: Checkpoint = "best",
    stochastic: Annotated[
        bool, typer.Option("--stochastic", help="Draw the actions instead of taking the likeliest.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, max=LARGEST_SEED, help="Seed of the episodes; default: the run's.")
    ] = None,
    runs_dir: RunsDir = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Let a run's best policy act for some episodes and print its mean return."""
    from muster.engines.engine import rules_of
    from muster.policies import load_policy
    from muster.stepping.apart import ApartProcess
    from muster.stepping.evaluation import EvaluationTask, evaluate_saved
    from muster.stepping.live import FailedCallError
    from muster.training.failures import FailureRecord

    folder, path = find_checkpoint(run, checkpoint, folder_of_runs(runs_dir), show_notice)
    require_own_run(folder, [path], f"evaluate {run}", trust=trust)
    experiment = read_experiment(folder, path, show_notice)
    load_policy(path, trust=trust)
    simulator = experiment.simulator()
    task = EvaluationTask(
        simulator,
        rules_of(experiment),
        episodes,
        experiment.seed if seed is None else seed,
        deterministic=not stochastic,
    )
    process = ApartProcess(experiment.env.step_timeout)
    try:
        result = process.call(evaluate_saved, str(path), task)
    except FailedCallError as error:
        raise FailureRecord(experiment, simulator, folder).error(error.failure) from None
    finally:
        process.close()
    if as_json:
        print_json({"run": str(folder.path), "checkpoint": str(path), **asdict(result)})
        return
    console().print(
        f"{folder.name}, checkpoint {path.name}: return {figure(result.return_mean)} "
        f"± {figure(result.return_std)}, length {figure(result.length_mean)}, "
        f"over {counted(result.episodes, 'episode')}"
    )
