"""`muster resume`: continue a run by its name."""

from __future__ import annotations

from muster.cli.named_run import load_named_run
from muster.cli.options import (
    AsJson,
    Gpus,
    Quiet,
    Run,
    RunsDir,
    Settings,
    StopIterations,
    StopReturn,
    StopSteps,
    StopTime,
    Trust,
    Verbose,
    Workers,
    number_or_word,
    overrides_of,
)
from muster.cli.training import Asked, Shown, train_and_show


def resume(
    run: Run,
    workers: Workers = None,
    gpus: Gpus = None,
    stop_steps: StopSteps = None,
    stop_iterations: StopIterations = None,
    stop_time: StopTime = None,
    stop_return: StopReturn = None,
    settings: Settings = None,
    runs_dir: RunsDir = None,
    trust: Trust = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Continue a run from its newest checkpoint.

    The run's own settings hold; when to stop, on what, evaluation and checkpoints may be given again.
    """
    given = (
        ("--workers", "resources.workers", number_or_word(workers)),
        ("--gpus", "resources.gpus", gpus),
        ("--stop-steps", "stop.steps", stop_steps),
        ("--stop-iterations", "stop.iterations", stop_iterations),
        ("--stop-time", "stop.time", stop_time),
        ("--stop-return", "stop.return", stop_return),
    )
    loaded, folder = load_named_run(run, runs_dir, overrides_of(given, settings))
    train_and_show(loaded, Asked(folder, resume=True, trust=trust), Shown(as_json, quiet, verbose))
