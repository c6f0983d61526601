"""The one table of the built-in engine's algorithms, by the names that the experiment file has for them."""

from __future__ import annotations

from typing import Any

from muster.engines.builtin.learning.a2c import A2C
from muster.engines.builtin.learning.ppo import PPO
from muster.engines.builtin.learning.protocol import Algorithm
from muster.engines.builtin.learning.trpo import TRPO
from muster.experiment.schema import AlgorithmSection, Experiment

ALGORITHMS: dict[str, type[Any]] = {"PPO": PPO, "TRPO": TRPO, "A2C": A2C}


def algorithm_of(experiment: Experiment) -> Algorithm:
    """Return the algorithm that an experiment for the built-in engine names, with its settings."""
    assert isinstance(experiment.algorithm, AlgorithmSection)
    algorithm: Algorithm = ALGORITHMS[experiment.algorithm.name](experiment.algorithm)
    return algorithm


def torch_trainers() -> list[str]:
    """Return the names of the algorithms that train torch networks, too."""
    return [name for name, algorithm in ALGORITHMS.items() if algorithm.trains_torch]
