"""The built-in engine: a collector samples with every group, a learner learns from it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.engines.builtin.learning.learner import Learner, LearnerState
from muster.engines.builtin.networks.model_settings import Task
from muster.engines.builtin.sampling.groups import GroupSettings
from muster.engines.builtin.sampling.learning_rows import Discounting
from muster.engines.builtin.sampling.ray_collector import RayCollector
from muster.engines.builtin.sampling.workers import Collector, GroupStart, LocalCollector, UnsavedSimulatorsError
from muster.engines.engine import Iteration, RunSupervision, journals_beside
from muster.experiment.schema import AlgorithmSection, Experiment
from muster.policies import Policy
from muster.policies.interface import Interface
from muster.simulators.simulator import Simulator
from muster.stepping.many import SteppingSettings
from muster.stepping.process_state import NUMPY_ERRORS
from muster.stepping.threads import threads

Array = NDArray[Any]

SIMULATORS_FILE = "simulators.npz"


class BuiltinEngine:
    """Trains one experiment with a number of workers (0: in this process, without Ray)."""

    def __init__(
        self,
        experiment: Experiment,
        simulator: Simulator,
        task: Task,
        num_workers: int,
        supervision: RunSupervision,
        checkpoint: Path | None = None,
        weights_from: Path | None = None,
    ) -> None:
        algorithm, resources = experiment.algorithm, experiment.resources
        assert isinstance(algorithm, AlgorithmSection)
        num_envs = resources.env_groups * resources.envs_per_group
        self._experiment = experiment
        self._supervision = supervision
        self._task = task
        self._settings = GroupSettings(
            SteppingSettings(
                simulator=simulator,
                observations=task.observations,
                actions=task.actions,
                num_envs=resources.envs_per_group,
                seed=experiment.seed,
                restart_every=experiment.env.restart_every,
                check_bounds=experiment.env.check_bounds,
                step_timeout=experiment.env.step_timeout,
                metrics=experiment.metrics,
            ),
            fragment_length=-(-algorithm.train_batch_size // num_envs),
            discounting=Discounting(algorithm.gamma, algorithm.lambda_),
            model=task.model,
        )
        self._networks = self._settings.networks()
        self._learner = Learner(experiment, self._networks, self._settings.row_format())
        if weights_from is not None:
            self._learner.load(weights_from, weights_only=True)
        states: list[bytes] = []
        if checkpoint is not None:
            self._learner.load(checkpoint)
            states = _load_states(checkpoint)
        self.batch_size = self._settings.fragment_length * num_envs
        starts = [
            GroupStart(g, self._learner.state.next_episodes[g], states[g] if states else None)
            for g in range(resources.env_groups)
        ]
        self._collector: Collector
        if num_workers:
            self._collector = RayCollector(
                self._settings, starts, num_workers, overlap=resources.overlap, supervision=supervision
            )
        else:
            with threads(1):
                self._collector = LocalCollector(
                    self._settings,
                    starts,
                    journals_beside(simulator),
                    supervision,
                    supervision.hung,
                )
        self.episodes_restarted = checkpoint is not None and (not states or self._collector.num_restarted > 0)

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The columns that the algorithm adds to the record."""
        return self._learner.metric_names

    def iterate(self, fraction_done: float, scheduled: Mapping[str, Any]) -> Iteration:
        """Sample a batch and learn from it; the learner changes at the end, if all of it succeeds.

        Raises:
            SimulatorError, SamplingAbandonedError, NonFiniteUpdateError, RayLostError: the learner is unchanged.
        """
        started = time.perf_counter()
        with threads(1):
            sampled = self._collector.collect(replace(self._learner.weights(), scheduled=scheduled))
        sampled_at = time.perf_counter()

        def on_progress(fraction: float, parameters: Array) -> None:
            self._supervision.require_time()
            weights = replace(self._learner.weights(), parameters=parameters, scheduled=scheduled)
            self._collector.learning(fraction, lambda: weights)

        with threads(self._experiment.resources.learner_threads), np.errstate(**NUMPY_ERRORS):
            metrics = self._learner.update(sampled.fragments, sampled.next_episodes, fraction_done, on_progress)
        return Iteration(
            steps=sum(fragment.steps for fragment in sampled.fragments),
            episodes=[episode for fragment in sampled.fragments for episode in fragment.episodes],
            workers_lost=sampled.workers_lost,
            metrics=metrics,
            sample_seconds=sampled_at - started,
            learn_seconds=time.perf_counter() - sampled_at,
            wait_seconds=sampled.idle_seconds,
        )

    def policy(self) -> Policy:
        """Return the policy as it is now."""
        return self._policy_in(self._learner.state)

    def _policy_in(self, state: LearnerState) -> Policy:
        scale = self._learner.weights(state).observation_scale
        interface = Interface(self._task.observations, self._task.actions, scale)
        return self._networks.policy_with(state.train.parameters.copy(), interface)

    def save(self, folder: Path, *, simulators: bool) -> str | None:
        """Write policy and complete training state into a folder.

        Return why resuming will start new episodes, if it will.
        """
        state = self._learner.state
        self._policy_in(state).save(folder)
        self._learner.save(folder, state)
        if not simulators:
            return "the checkpoint was saved without the state of the simulators"
        try:
            states = self._collector.states()
        except UnsavedSimulatorsError as error:
            return str(error)
        np.savez(folder / SIMULATORS_FILE, *[np.frombuffer(pickled, np.uint8) for pickled in states])
        return None

    def close(self) -> None:
        """End the workers and close the simulators."""
        self._collector.close()


def _load_states(folder: Path) -> list[bytes]:
    path = folder / SIMULATORS_FILE
    if not path.is_file():
        return []
    with np.load(path, allow_pickle=False) as states:
        return [states[f"arr_{i}"].tobytes() for i in range(len(states))]
