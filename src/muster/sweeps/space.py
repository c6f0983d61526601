"""The values that trials may have: drawn, combined, and kept in bounds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from muster.experiment.schema import Experiment
from muster.experiment.sweep import Parameter
from muster.experiment.sweep_checking import is_whole

Values = dict[str, Any]


@dataclass(frozen=True)
class Space:
    """The parameters of a sweep, and which of their ranges are of whole numbers."""

    parameters: dict[str, Parameter]
    whole: frozenset[str]

    @classmethod
    def of(cls, experiment: Experiment) -> Space:
        """Read the space of an experiment that has a sweep."""
        assert experiment.sweep is not None
        table, parameters = experiment.as_table(), experiment.sweep.parameters
        ranges = {key: parameter for key, parameter in parameters.items() if parameter.bounds}
        return cls(parameters, frozenset(key for key in ranges if is_whole(table, key, ranges[key])))

    def random_values(self, num_draws: int, seed: int) -> Iterator[Values]:
        """Yield the values of all trials: each draw with every point of the grids. More draws begin the same."""
        rng = np.random.default_rng(seed)
        grids = {key: parameter.grid for key, parameter in self.parameters.items() if parameter.grid}
        for _ in range(num_draws):
            for point in itertools.product(*grids.values()):
                chosen = dict(zip(grids, point, strict=True))
                yield {key: chosen[key] if key in chosen else self.draw(key, rng) for key in self.parameters}

    def draw(self, key: str, rng: np.random.Generator) -> Any:
        """Draw a value of one parameter; both ends of a range are in it."""
        parameter = self.parameters[key]
        if parameter.bounds is None:
            values = parameter.values
            return values[int(rng.integers(len(values)))]
        low, high = parameter.bounds
        if key in self.whole and parameter.uniform:
            return int(rng.integers(int(low), int(high), endpoint=True))
        if parameter.uniform:
            return float(rng.uniform(low, high))
        reach = 0.5 if key in self.whole else 0.0
        drawn = math.exp(rng.uniform(math.log(low - reach), math.log(high + reach)))
        return self.clip(key, round(drawn) if key in self.whole else drawn)

    def clip(self, key: str, value: Any) -> Any:
        """Return the nearest value that is in the parameter's range."""
        bounds = self.parameters[key].bounds
        if bounds is None:
            return value
        clipped = min(max(value, bounds[0]), bounds[1])
        return round(clipped) if key in self.whole else float(clipped)
