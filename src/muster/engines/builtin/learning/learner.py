"""The learner: all that learning changes, updated from what was sampled, saved and loaded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.engines.builtin.learning.adam import Adam
from muster.engines.builtin.learning.algorithms import algorithm_of
from muster.engines.builtin.learning.batch import Batch
from muster.engines.builtin.learning.metrics import Metrics
from muster.engines.builtin.learning.protocol import OnProgress, TrainState
from muster.engines.builtin.networks.protocol import Networks
from muster.engines.builtin.networks.row_formats import RowFormat
from muster.engines.builtin.sampling.fragments import Fragment, Weights
from muster.engines.builtin.sampling.learning_rows import Discounting, learning_rows, rescaled
from muster.engines.moments import Moments
from muster.errors import CheckpointError, NonFiniteUpdateError
from muster.experiment.schema import AlgorithmSection, Experiment
from muster.simulators.seeding import Stream, generator

Array = NDArray[Any]

ARRAYS_FILE = "learner.npz"
STATE_FILE = "learner.json"


@dataclass(frozen=True)
class LearnerState:
    """All that learning changes. An update replaces it as a whole, so that another thread may save at any time."""

    train: TrainState
    observations: Moments
    returns: Moments
    next_episodes: list[list[int]]


class Learner:
    """Learns from fragments, in this process and on the CPU."""

    def __init__(self, experiment: Experiment, networks: Networks, row_format: RowFormat) -> None:
        """Start with initial weights, for rows of a format."""
        settings = experiment.algorithm
        assert isinstance(settings, AlgorithmSection)
        self._algorithm = algorithm_of(experiment)
        self._networks = networks
        self._row_format = row_format
        self._discounting = Discounting(settings.gamma, settings.lambda_)
        self._scalable = scalable = row_format.scalable
        self._scales_observations = experiment.normalize.observations and bool(scalable.any())
        self._scales_rewards = experiment.normalize.rewards
        seed, resources = experiment.seed, experiment.resources
        self._state = LearnerState(
            TrainState(
                networks.initial(generator(seed, Stream.INITIAL_WEIGHTS)),
                self._algorithm.optimizer(networks),
                generator(seed, Stream.LEARNER),
            ),
            observations=Moments.empty(len(scalable)),
            returns=Moments.empty(1),
            next_episodes=[[0] * resources.envs_per_group for _ in range(resources.env_groups)],
        )

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The columns that the algorithm adds to the record."""
        return self._algorithm.metrics

    @property
    def state(self) -> LearnerState:
        """All that was learned so far; never changed in place."""
        return self._state

    def weights(self, state: LearnerState | None = None) -> Weights:
        """Return what groups sample with, in the current state or a given one."""
        state = state or self._state
        scales = self._scales_observations or self._scales_rewards
        return Weights(
            state.train.parameters,
            state.observations.scale(self._scalable) if self._scales_observations else None,
            float(state.returns.std[0]) if self._scales_rewards else 1.0,
            scales_are_known=state.returns.count > 0 or not scales,
        )

    def update(
        self,
        fragments: Sequence[Fragment],
        next_episodes: list[list[int]],
        fraction_done: float,
        on_progress: OnProgress,
    ) -> Metrics:
        """Learn from the fragments of an iteration; the state changes at the end, if all of it succeeds.

        Fragments that were sampled before the scales were known are rescaled with this batch's statistics.

        Raises:
            NonFiniteUpdateError: if a gradient or the result is not finite.
        """
        state = self._state
        observations, returns = state.observations, state.returns
        for fragment in fragments:
            observations = observations.merged(fragment.observation_moments)
            returns = returns.merged(fragment.return_moments)
        weights = self.weights(replace(state, observations=observations, returns=returns))
        train, metrics = state.train, Metrics()
        batch = Batch.join([self._scaled(fragment, weights) for fragment in fragments])
        if len(batch):
            train = train.copy()
            metrics = self._algorithm.update(self._networks, train, batch, fraction_done, on_progress)
            if not np.isfinite(train.parameters).all():
                raise NonFiniteUpdateError("the update made weights that are not finite")
        self._state = LearnerState(train, observations, returns, next_episodes)
        return metrics

    def _scaled(self, fragment: Fragment, weights: Weights) -> Fragment:
        if fragment.recording is None:
            return fragment
        recording = rescaled(fragment.recording, weights.observation_scale, self._row_format)
        rows = learning_rows(recording, weights, self._networks, self._row_format, self._discounting)
        return replace(fragment, **rows._asdict())

    def save(self, folder: Path, state: LearnerState) -> None:
        """Write a state into a folder."""
        optimizer = state.train.optimizer
        np.savez(
            folder / ARRAYS_FILE,
            parameters=state.train.parameters,
            optimizer_gradients=optimizer.gradients,
            optimizer_squares=optimizer.squares,
            observations_mean=state.observations.mean,
            observations_deviations=state.observations.deviations,
            returns_mean=state.returns.mean,
            returns_deviations=state.returns.deviations,
        )
        numbers = {
            "optimizer_steps": optimizer.steps,
            "observations_count": state.observations.count,
            "returns_count": state.returns.count,
            "rng": state.train.rng.bit_generator.state,
            "next_episodes": state.next_episodes,
        }
        (folder / STATE_FILE).write_text(json.dumps(numbers) + "\n", encoding="utf-8")

    def load(self, folder: Path, *, weights_only: bool = False) -> None:
        """Take over a saved state, or only the parameters and scales that a policy is made of.

        Raises:
            CheckpointError: if its network is another one.
        """
        with np.load(folder / ARRAYS_FILE, allow_pickle=False) as file:
            arrays = dict(file)
        numbers = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))
        state = self._state
        if (
            arrays["parameters"].shape != state.train.parameters.shape
            or arrays["observations_mean"].shape != state.observations.mean.shape
        ):
            raise CheckpointError(
                f"{folder}: its network does not fit this experiment's spaces and [model]\n"
                "    take a checkpoint of the same simulator, with the same [model]"
            )
        train = replace(state.train.copy(), parameters=arrays["parameters"])
        next_episodes = state.next_episodes
        if not weights_only:
            sums = arrays["optimizer_gradients"], arrays["optimizer_squares"]
            train.optimizer = Adam(*sums, numbers["optimizer_steps"])
            train.rng.bit_generator.state = numbers["rng"]
            next_episodes = [[episode + 1 for episode in group] for group in numbers["next_episodes"]]
        self._state = LearnerState(
            train,
            Moments(numbers["observations_count"], arrays["observations_mean"], arrays["observations_deviations"]),
            Moments(numbers["returns_count"], arrays["returns_mean"], arrays["returns_deviations"]),
            next_episodes,
        )
