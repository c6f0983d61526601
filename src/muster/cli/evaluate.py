"""`muster evaluate`: how good is what a run learned?"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli.evaluation_views import compared, show_evaluation
from muster.cli.group_views import evaluate_group
from muster.cli.options import AsJson, Checkpoint, Run, RunsDir, Trust
from muster.cli.screen import console, figure, print_json, show_notice
from muster.errors import InputError
from muster.experiment.quantities import LARGEST_SEED, counted
from muster.experiment.schema import Experiment
from muster.runs.checkpoints import BEST, LATEST, Checkpoints, verify
from muster.runs.finding import find_checkpoint, require_own_run
from muster.runs.folder import RunFolder
from muster.runs.folder import runs_dir as folder_of_runs
from muster.runs.groups import find_group
from muster.runs.reading import read_experiment

if TYPE_CHECKING:
    from muster.stepping.evaluation import Evaluation


def evaluate(
    run: Run,
    episodes: Annotated[int, typer.Option(min=1, help="How many episodes.")] = 100,
    checkpoint: Checkpoint = BEST,
    last: Annotated[
        int | None,
        typer.Option(min=1, help="Evaluate this many of the newest checkpoints instead, and print their mean."),
    ] = None,
    stochastic: Annotated[
        bool, typer.Option("--stochastic", help="Draw the actions instead of taking the likeliest.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, max=LARGEST_SEED, help="Seed of the episodes; default: the run's.")
    ] = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            help="Compare with `random` actions, or with a rule of your own: module:function or "
            "path/to/file.py:function, of the observation (and info), that returns an action. Repeatable."
        ),
    ] = None,
    runs_dir: RunsDir = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Let a run's best policy act for some episodes and print its mean return.

    Of a sweep: its best trial's; of a folder of several seeds: each one's, in the same episodes.
    """
    group = find_group(run, folder_of_runs(runs_dir))
    if group is not None and last is not None:
        raise InputError(f"--last {last}: {group.path} holds several runs\n    name one of them")

    def evaluate_one(run: str, seed: int | None) -> dict[str, Any]:
        return _evaluate(
            run,
            episodes,
            checkpoint,
            last,
            seed,
            baseline or [],
            folder_of_runs(runs_dir),
            stochastic=stochastic,
            trust=trust,
            as_json=as_json,
        )

    if group is not None:
        evaluate_group(group, evaluate_one, seed, as_json=as_json)
        return
    found = evaluate_one(run, seed)
    if as_json:
        print_json(found)


def _evaluate(
    run: str,
    episodes: int,
    checkpoint: str,
    last: int | None,
    seed: int | None,
    baselines: list[str],
    directory: Path,
    *,
    stochastic: bool,
    trust: bool,
    as_json: bool,
) -> dict[str, Any]:
    """Evaluate one run, and print it unless JSON is wanted; return what JSON says of it."""
    from muster.policies import load_policy
    from muster.stepping.apart import ApartProcess
    from muster.stepping.evaluation import evaluate_baseline, evaluate_saved
    from muster.stepping.live import FailedCallError
    from muster.training.evaluations import evaluation_task
    from muster.training.failures import FailureRecord

    if last is not None and checkpoint != BEST:
        raise InputError(f"--checkpoint {checkpoint} and --last {last} exclude each other\n    give one of them")
    which = checkpoint if last is None else LATEST
    folder, path = find_checkpoint(run, which, directory, show_notice)
    if last is not None and any((base / run).resolve() == path.resolve() for base in (Path(), directory)):
        raise InputError(f"--last {last}: {run} is a checkpoint\n    name its run: {folder.path}")
    paths = [path] if last is None else _newest(folder, last)
    require_own_run(folder, paths, f"evaluate {run}", trust=trust)
    experiment = read_experiment(folder, path, show_notice)
    for one in paths:
        load_policy(one, trust=trust)
    task = evaluation_task(experiment, episodes=episodes, seed=seed, deterministic=not stochastic)
    process = ApartProcess(experiment.env.step_timeout)
    results: list[Evaluation] = []
    rules: dict[str, Evaluation] = {}
    try:
        for name in baselines:
            rules[name] = process.call(evaluate_baseline, name, task)
        for one in paths:
            result = process.call(evaluate_saved, str(one), task)
            results.append(result)
            if not as_json:
                best = Checkpoints(folder.checkpoints).best() if which == BEST else None
                is_best = best is not None and best.name == path.name
                chosen_by = _chosen_by(experiment) if is_best else ""
                show_evaluation(f"{folder.name}, checkpoint {one.name}{chosen_by}", result, rules)
    except FailedCallError as error:
        raise FailureRecord(experiment, task.simulator, folder).error(error.failure) from None
    finally:
        process.close()
    if last is not None:
        return _mean(folder, paths, results, as_json=as_json)
    found = {"run": str(folder.path), "checkpoint": str(path), **results[0].record()}
    beside = [compared(results[0], name, rule) for name, rule in rules.items()]
    if beside:
        found["baseline"] = beside[0]
    if len(beside) > 1:
        found["baselines"] = beside
    return found


def _newest(folder: RunFolder, count: int) -> list[Path]:
    saved = Checkpoints(folder.checkpoints).saved()[-count:]
    if len(saved) < count:
        raise InputError(
            f"--last {count}: {folder.name} has {counted(len(saved), 'checkpoint')}\n"
            "    a run keeps as many as checkpoint.keep says, and the best"
        )
    for path in saved:
        verify(path)
    return [path.absolute() for path in saved]


def _chosen_by(experiment: Experiment) -> str:
    """Say what decided which checkpoint is the best."""
    from muster.training.progress import WINDOW

    if experiment.evaluation.every:
        return f" (best by evaluations of {counted(experiment.evaluation.episodes, 'episode')})"
    return f" (best by the mean return of the last {WINDOW} training episodes)"


def _mean(folder: RunFolder, paths: list[Path], results: list[Evaluation], *, as_json: bool) -> dict[str, Any]:
    """Return the mean over checkpoints, and print it unless JSON is wanted; the deviation is that between them."""
    means = [result.return_mean for result in results]
    mean, deviation = fmean(means), pstdev(means)
    if not as_json:
        count = counted(len(paths), "checkpoint")
        text = f"mean of the last {count}: return {figure(mean)} ± {figure(deviation)} between checkpoints"
        console().print(text)
    pairs = zip(paths, results, strict=True)
    each = [{"checkpoint": str(path), **result.record()} for path, result in pairs]
    summary = {"return_mean": mean, "return_std_between": deviation}
    return {"run": str(folder.path), "checkpoints": each, **summary}
