"""The same experiment with several seeds: one run each, in one folder, and what they give together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from muster.errors import InputError, MusterError
from muster.experiment import LoadedExperiment
from muster.experiment.quantities import LARGEST_SEED
from muster.runs.checkpoints import Checkpoints
from muster.runs.files import explained, write_json
from muster.runs.finding import claim_folder, newest_name
from muster.runs.folder import RunFolder, default_name, runs_dir
from muster.runs.reading import read_experiment
from muster.statistics import FEWEST_SEEDS, interval_of_mean
from muster.stepping.apart import ApartProcess, ProcessDiedError
from muster.stepping.evaluation import Evaluation, evaluate_saved
from muster.stepping.live import FailedCallError
from muster.training.call import TrainOptions, TrainResult
from muster.training.evaluations import evaluation_task
from muster.training.interruption import InterruptionWatch
from muster.training.listener import Listener
from muster.training.side_by_side import Show, most_at_once, train_side_by_side
from muster.training.train import train

# Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom.
_T_QUANTILES = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
_NORMAL_QUANTILE = 1.96


@dataclass(frozen=True)
class SeedsResult:
    """The runs of all seeds, and the mean of their returns with its 95 % interval.

    `evaluations` are how the best policy of each run did, all in the same episodes; `evaluation_mean` and
    `evaluation_interval` summarise them.
    """

    folder: str
    runs: list[TrainResult]
    return_mean: float | None
    interval: tuple[float, float] | None
    exit_code: int
    evaluations: list[Evaluation] = field(default_factory=list)
    evaluation_mean: float | None = None
    evaluation_interval: tuple[float, float] | None = None


def train_seeds(
    loaded: LoadedExperiment,
    count: int,
    options: TrainOptions,
    listener: Listener,
    watch: InterruptionWatch | None = None,
    show: Show = lambda _: None,
) -> SeedsResult:
    """Train one run per seed, counting up from the experiment's, side by side as far as there are CPUs.

    Then let the best policy of each act in the same episodes. An interruption or a failure stops all. While runs
    are side by side, `show` is given the state of each now and then.
    """
    experiment = loaded.experiment
    directory = runs_dir(options.runs_dir)
    base = default_name(experiment.env.id, experiment.algorithm.name) + "-seeds"
    name = experiment.name or (newest_name(base, directory) if options.resume else None)
    if experiment.seed + count - 1 > LARGEST_SEED:
        raise InputError(f"--seeds {count}: the last seed is too large; expected at most {LARGEST_SEED}")
    if name and RunFolder(directory / name).exists():
        raise InputError(f"{directory / name}: is a run\n    give the runs of the seeds another --name")
    folder = directory / name if name else claim_folder(base, directory)
    each = [
        loaded.replace("seed", seed, "--seeds").replace("name", f"seed-{seed}", "--seeds")
        for seed in range(experiment.seed, experiment.seed + count)
    ]
    options = replace(options, runs_dir=folder)
    results: dict[int, TrainResult] = {}
    at_once = most_at_once(loaded, count)
    with watch or InterruptionWatch() as watching:
        try:
            if at_once > 1:
                listener.noticed(f"{at_once} seeds at a time; what they print is in {folder}/seed-N.log")
                train_side_by_side(each, options, watching, at_once, results, show)
            else:
                _train_in_turn(each, options, listener, watching, results)
        except MusterError as error:
            if results:
                error.result = _summarise(folder, results, [])
            else:
                with suppress(OSError):
                    folder.rmdir()
                    folder.parent.rmdir()
            raise
    is_whole = len(results) == count and not any(result.exit_code for result in results.values())
    evaluations = _evaluate(folder, each, options, listener) if is_whole and experiment.evaluation.every else []
    return _summarise(folder, results, evaluations)


def _train_in_turn(
    each: Sequence[LoadedExperiment],
    options: TrainOptions,
    listener: Listener,
    watch: InterruptionWatch,
    results: dict[int, TrainResult],
) -> None:
    for number, one in enumerate(each):
        try:
            results[number] = train(one, options=options, listener=listener, watch=watch)
        except MusterError as error:
            if error.result is not None:
                results[number] = error.result
            raise
        if results[number].exit_code:
            return


def _evaluate(
    folder: Path, each: Sequence[LoadedExperiment], options: TrainOptions, listener: Listener
) -> list[Evaluation]:
    """Let the best policy of each run act, all in the same episodes, in none of which a checkpoint was chosen."""
    first = each[0].experiment
    seed = (first.seed + len(each)) % (LARGEST_SEED + 1)
    process = ApartProcess(first.env.step_timeout)
    evaluations = []
    try:
        for one in each:
            run = RunFolder(folder / str(one.experiment.name))
            checkpoints = Checkpoints(run.checkpoints)
            checkpoint = checkpoints.best() or checkpoints.latest()
            assert checkpoint is not None, "a finished run has a checkpoint"
            task = evaluation_task(read_experiment(run, checkpoint, listener.noticed), seed=seed)
            evaluations.append(process.call(evaluate_saved, str(checkpoint.absolute()), task))
    except (FailedCallError, ProcessDiedError) as error:
        listener.noticed(f"the seeds are not evaluated: {error}")
        return []
    finally:
        process.close()
    return evaluations


def _summarise(folder: Path, results: dict[int, TrainResult], evaluations: list[Evaluation]) -> SeedsResult:
    runs = [results[number] for number in sorted(results)]
    returns = [run.return_mean for run in runs if run.return_mean is not None]
    code = next((run.exit_code for run in runs if run.exit_code), 0)
    mean, interval = summary_of(returns)
    result = SeedsResult(str(folder), runs, mean, interval, code, evaluations)
    if evaluations:
        mean, interval = summary_of([evaluation.return_mean for evaluation in evaluations])
        result = replace(result, evaluation_mean=mean, evaluation_interval=interval)
    with explained(folder):
        write_json(folder / "seeds.json", asdict(result))
    return result


def average_name(count: int) -> str:
    """Return what `summary_of` so many values is called."""
    return "mean" if count < FEWEST_SEEDS else "interquartile mean"


def summary_of(returns: Sequence[float]) -> tuple[float | None, tuple[float, float] | None]:
    """Return the mean, or with enough values the interquartile mean, and its 95 % interval."""
    if len(returns) < FEWEST_SEEDS:
        return (float(np.mean(returns)) if returns else None), confidence_interval(returns)
    found = interval_of_mean(returns)
    return found.value, (found.low, found.high)


def confidence_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % interval of the mean by Student's t; None for fewer than two values."""
    if len(values) < 2:
        return None
    degrees = len(values) - 1
    quantile = _T_QUANTILES[degrees - 1] if degrees <= len(_T_QUANTILES) else _NORMAL_QUANTILE
    mean = float(np.mean(values))
    half = quantile * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return mean - half, mean + half
