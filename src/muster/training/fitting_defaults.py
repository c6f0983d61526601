"""Defaults that depend on the simulator, the engine, or how much is to be trained."""

from __future__ import annotations

from muster.experiment import LoadedExperiment
from muster.experiment.schema import AlgorithmSection, Experiment
from muster.experiment.source import DEFAULT

FEWEST_ITERATIONS = 16
SMALLEST_BATCH = 256
"""Smallest default batch: smaller ones estimate the gradient too poorly."""
ENVS_STEPPED_TOGETHER = 8
"""Simulators in a group that steps them with one call: a batch, or a worker of RLlib's."""

_BATCH_SIZE, _ENVS_PER_GROUP = "algorithm.train_batch_size", "resources.envs_per_group"


def with_fitting_defaults(loaded: LoadedExperiment, *, is_batched: bool) -> LoadedExperiment:
    """Return the experiment of a new run with the defaults that suit it; what was given is kept."""
    loaded = with_fitting_batch_size(loaded)
    count = envs_per_group(loaded, is_batched=is_batched)
    if count == loaded.experiment.resources.envs_per_group:
        return loaded
    return loaded.replace(_ENVS_PER_GROUP, count, "default where simulators step together")


def with_fitting_batch_size(loaded: LoadedExperiment) -> LoadedExperiment:
    """Make the default batch of steps smaller where so few are planned that there would be few iterations."""
    algorithm, steps = loaded.experiment.algorithm, loaded.experiment.stop.steps
    if not isinstance(algorithm, AlgorithmSection) or steps is None or not _is_default(loaded, _BATCH_SIZE):
        return loaded
    size = max(SMALLEST_BATCH, steps // FEWEST_ITERATIONS, getattr(algorithm, "minibatch_size", 0))
    if size >= algorithm.train_batch_size:
        return loaded
    return loaded.replace(_BATCH_SIZE, size, f"default where stop.steps = {steps}")


def envs_per_group(loaded: LoadedExperiment, *, is_batched: bool) -> int:
    """Return how many simulators a group has."""
    experiment = loaded.experiment
    if _is_default(loaded, _ENVS_PER_GROUP) and (is_batched or experiment.algorithm.engine == "rllib"):
        return ENVS_STEPPED_TOGETHER
    return experiment.resources.envs_per_group


def with_defaults_of(loaded: LoadedExperiment, other: Experiment) -> LoadedExperiment:
    """Return the experiment with the fitted defaults of another run, from whose checkpoint it continues."""
    if isinstance(loaded.experiment.algorithm, AlgorithmSection) and _is_default(loaded, _BATCH_SIZE):
        size = getattr(other.algorithm, "train_batch_size", loaded.experiment.algorithm.train_batch_size)
        loaded = loaded.replace(_BATCH_SIZE, size, "as before")
    if _is_default(loaded, _ENVS_PER_GROUP):
        loaded = loaded.replace(_ENVS_PER_GROUP, other.resources.envs_per_group, "as before")
    return loaded


def _is_default(loaded: LoadedExperiment, key: str) -> bool:
    return loaded.sources.get(key, DEFAULT) == DEFAULT
