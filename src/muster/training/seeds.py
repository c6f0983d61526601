"""The same experiment with several seeds: one run each, in one folder, and what they give together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from muster.errors import InputError, MusterError
from muster.experiment import LoadedExperiment
from muster.experiment.quantities import LARGEST_SEED
from muster.runs.files import explained, write_json
from muster.runs.finding import claim_folder, newest_name
from muster.runs.folder import default_name, runs_dir
from muster.training.call import TrainOptions, TrainResult
from muster.training.interruption import InterruptionWatch
from muster.training.listener import Listener
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
    """The runs of all seeds, and the mean of their returns with its 95 % interval."""

    folder: str
    runs: list[TrainResult]
    return_mean: float | None
    interval: tuple[float, float] | None
    exit_code: int


def train_seeds(
    loaded: LoadedExperiment,
    count: int,
    options: TrainOptions,
    listener: Listener,
    watch: InterruptionWatch | None = None,
) -> SeedsResult:
    """Train one run per seed, one after another, counting up from the experiment's; stop at an interruption."""
    experiment = loaded.experiment
    directory = runs_dir(options.runs_dir)
    base = default_name(experiment.env.id, experiment.algorithm.name) + "-seeds"
    name = experiment.name or (newest_name(base, directory) if options.resume else None)
    if experiment.seed + count - 1 > LARGEST_SEED:
        raise InputError(f"--seeds {count}: the last seed is too large; expected at most {LARGEST_SEED}")
    folder = directory / name if name else claim_folder(base, directory)
    results: list[TrainResult] = []
    for seed in range(experiment.seed, experiment.seed + count):
        one = loaded.replace("seed", seed, "--seeds").replace("name", f"seed-{seed}", "--seeds")
        try:
            here = replace(options, runs_dir=folder)
            results.append(train(one, options=here, listener=listener, watch=watch))
        except MusterError as error:
            if error.result is not None:
                error.result = _summarise(folder, [*results, error.result])
            raise
        if results[-1].exit_code:
            break
    return _summarise(folder, results)


def _summarise(folder: Path, results: list[TrainResult]) -> SeedsResult:
    returns = [result.return_mean for result in results if result.return_mean is not None]
    mean = float(np.mean(returns)) if returns else None
    result = SeedsResult(str(folder), results, mean, confidence_interval(returns), results[-1].exit_code)
    with explained(folder):
        write_json(folder / "seeds.json", asdict(result))
    return result


def confidence_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % interval of the mean by Student's t; None for fewer than two values."""
    if len(values) < 2:
        return None
    degrees = len(values) - 1
    quantile = _T_QUANTILES[degrees - 1] if degrees <= len(_T_QUANTILES) else _NORMAL_QUANTILE
    mean = float(np.mean(values))
    half = quantile * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return mean - half, mean + half
