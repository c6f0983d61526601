"""Defaults that depend on the simulator, or on how much is to be trained."""

from __future__ import annotations

from muster.experiment import LoadedExperiment
from muster.experiment.schema import AlgorithmSection
from muster.experiment.source import DEFAULT

FEWEST_ITERATIONS = 16
SMALLEST_BATCH = 256
"""Steps of an iteration, unless the experiment says less: fewer would say too little about the policy."""
ENVS_PER_BATCH = 8
"""Simulators that step as one by default: with fewer, a batch brings nothing."""


def with_fitting_defaults(loaded: LoadedExperiment, *, is_batched: bool) -> LoadedExperiment:
    """Return the experiment of a new run with the defaults that suit it; what was given is kept."""
    loaded = _with_batch_size(loaded)
    if is_batched and (count := envs_per_batch(loaded)) != loaded.experiment.resources.envs_per_group:
        return loaded.replace("resources.envs_per_group", count, "default of a batched simulator")
    return loaded


def envs_per_batch(loaded: LoadedExperiment) -> int:
    """Return how many simulators a batched one has in each group."""
    is_given = loaded.sources.get("resources.envs_per_group", DEFAULT) != DEFAULT
    return loaded.experiment.resources.envs_per_group if is_given else ENVS_PER_BATCH


def _with_batch_size(loaded: LoadedExperiment) -> LoadedExperiment:
    """Make a batch of steps smaller where so few are planned that there would be few iterations."""
    key, algorithm, steps = "algorithm.train_batch_size", loaded.experiment.algorithm, loaded.experiment.stop.steps
    if not isinstance(algorithm, AlgorithmSection) or steps is None or loaded.sources.get(key) != DEFAULT:
        return loaded
    size = max(SMALLEST_BATCH, steps // FEWEST_ITERATIONS)
    if size >= algorithm.train_batch_size:
        return loaded
    return loaded.replace(key, size, f"default where stop.steps = {steps}")
