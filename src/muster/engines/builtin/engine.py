"""The built-in engine: sample with every group, learn from it, merge the scales."""

from __future__ import annotations

import json
import time
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.engines.builtin import ppo, trpo
from muster.engines.builtin.actor_critic import ActorCritic
from muster.engines.builtin.adam import Adam
from muster.engines.builtin.batch import Batch
from muster.engines.builtin.groups import GroupSettings, Weights
from muster.engines.builtin.modelling import Task
from muster.engines.builtin.ray_collector import RayCollector
from muster.engines.builtin.threads import threads
from muster.engines.builtin.workers import Collector, GroupStart, LocalCollector, UnsavedSimulatorsError
from muster.engines.engine import Interrupted, Iteration, SamplingAbandonedError, SimulatorFailure, Tell
from muster.engines.moments import Moments
from muster.errors import CheckpointError
from muster.experiment.schema import AlgorithmSection, Experiment, PPOSection, TRPOSection
from muster.policies import Policy
from muster.policies.acting import Interface
from muster.simulators.building import Simulator
from muster.simulators.encoding import ObservationEncoder
from muster.simulators.seeding import Stream, generator

Array = NDArray[Any]

ARRAYS_FILE = "learner.npz"
STATE_FILE = "learner.json"
SIMULATORS_FILE = "simulators.npz"
JOURNALS = "journals"


@dataclass
class _Learner:
    """All that learning changes."""

    parameters: Array
    optimizer: Adam
    observations: Moments
    returns: Moments
    rng: np.random.Generator
    next_episodes: list[list[int]]

    def copy(self) -> _Learner:
        """Return one that can be changed without changing this one."""
        return replace(self, rng=deepcopy(self.rng))


class BuiltinEngine:
    """PPO or TRPO for one experiment, with a number of workers (0: in this process, without Ray)."""

    def __init__(
        self,
        experiment: Experiment,
        simulator: Simulator,
        task: Task,
        num_workers: int,
        interrupted: Interrupted,
        checkpoint: Path | None = None,
        weights_from: Path | None = None,
    ) -> None:
        algorithm, resources = experiment.algorithm, experiment.resources
        assert isinstance(algorithm, AlgorithmSection)
        num_envs = resources.env_groups * resources.envs_per_group
        self._experiment = experiment
        self._settings = GroupSettings(
            simulator=simulator,
            observations=task.observations,
            actions=task.actions,
            num_envs=resources.envs_per_group,
            fragment_length=-(-algorithm.train_batch_size // num_envs),
            seed=experiment.seed,
            gamma=algorithm.gamma,
            lambda_=algorithm.lambda_,
            model=task.model,
            restart_every=experiment.env.restart_every,
            check_bounds=experiment.env.check_bounds,
            step_timeout=experiment.env.step_timeout,
            max_failures=experiment.env.max_failures,
        )
        self._networks = self._settings.networks()
        self._scalable = ObservationEncoder(task.observations).scalable
        self._scales_observations = experiment.normalize.observations and bool(self._scalable.any())
        self._learner = self._new_learner()
        if weights_from is not None:
            self._load(weights_from, weights_only=True)
        states: list[bytes] = []
        if checkpoint is not None:
            self._load(checkpoint)
            states = _load_states(checkpoint)
        self.batch_size = self._settings.fragment_length * num_envs
        starts = [
            GroupStart(g, self._learner.next_episodes[g], states[g] if states else None)
            for g in range(resources.env_groups)
        ]
        self._collector: Collector
        if num_workers:
            self._collector = RayCollector(
                self._settings, starts, num_workers, overlap=resources.overlap, interrupted=interrupted
            )
        else:
            with threads(1):
                self._collector = LocalCollector(self._settings, starts, Path(simulator.folder).parent / JOURNALS)

        self.episodes_restarted = checkpoint is not None and (not states or self._collector.num_restarted > 0)

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The columns that the algorithm adds to the record."""
        return ppo.METRICS if isinstance(self._experiment.algorithm, PPOSection) else trpo.METRICS

    def iterate(self, fraction_done: float, interrupted: Interrupted, tell: Tell) -> Iteration:
        """Sample a batch and learn from it; the state changes at once, if all of it succeeds.

        Raises:
            SimulatorError, SamplingAbandonedError, NonFiniteUpdateError, RayLostError: the learner is as it was
                before.
        """
        learner, normalize = self._learner.copy(), self._experiment.normalize
        started = time.perf_counter()
        with threads(1):
            sampled = self._collector.collect(self._weights(), interrupted, tell)
        sampled_at = time.perf_counter()
        metrics: dict[str, float | None] = {}
        batch = Batch.join(sampled.fragments)
        only_measures = learner.returns.count == 0 and (self._scales_observations or normalize.rewards)
        if len(batch) and not only_measures:
            with threads(self._experiment.resources.learner_threads):
                learner.parameters, learner.optimizer, metrics = self._update(
                    learner, batch, fraction_done, interrupted
                )
        for fragment in sampled.fragments:
            learner.observations = learner.observations.merged(fragment.observation_moments)
            learner.returns = learner.returns.merged(fragment.return_moments)
        learner.next_episodes = sampled.next_episodes
        self._learner = learner
        return Iteration(
            steps=sum(fragment.steps for fragment in sampled.fragments),
            episodes=[episode for fragment in sampled.fragments for episode in fragment.episodes],
            failures=[
                *sampled.failures,
                *(failure for fragment in sampled.fragments for failure in fragment.failures),
            ],
            workers_lost=sampled.workers_lost,
            metrics=metrics,
            sample_seconds=sampled_at - started,
            learn_seconds=time.perf_counter() - sampled_at,
            wait_seconds=sampled.idle_seconds,
        )

    def _update(
        self, learner: _Learner, batch: Batch, fraction_done: float, interrupted: Interrupted
    ) -> tuple[Array, Adam, dict[str, float | None]]:
        algorithm = self._experiment.algorithm

        def on_the_way(share: float, parameters: Array) -> None:
            if interrupted():
                raise SamplingAbandonedError
            self._collector.learning(share, lambda: replace(self._weights(), parameters=parameters))

        if isinstance(algorithm, PPOSection):
            lr = algorithm.lr * (1 - fraction_done if algorithm.lr_schedule == "linear" else 1)
            return ppo.update(
                self._networks,
                learner.parameters,
                learner.optimizer,
                batch,
                algorithm,
                lr,
                learner.rng,
                on_the_way,
            )
        assert isinstance(algorithm, TRPOSection) and isinstance(self._networks, ActorCritic)
        return trpo.update(
            self._networks, learner.parameters, learner.optimizer, batch, algorithm, learner.rng, on_the_way
        )

    def _weights(self) -> Weights:
        learner, normalize = self._learner, self._experiment.normalize
        return Weights(
            learner.parameters,
            learner.observations.scale(self._scalable) if self._scales_observations else None,
            float(learner.returns.std[0]) if normalize.rewards else 1.0,
        )

    def policy(self) -> Policy:
        """Return the policy as it is now."""
        interface = Interface(
            self._settings.observations, self._settings.actions, self._weights().observation_scale
        )
        return self._networks.policy_with(self._learner.parameters.copy(), interface)

    def save(self, folder: Path, *, simulators: bool) -> str | None:
        """Write policy and complete training state into a folder.

        Returns why resuming will begin new episodes, if it will.
        """
        learner = self._learner
        self.policy().save(folder)
        np.savez(
            folder / ARRAYS_FILE,
            parameters=learner.parameters,
            optimizer_gradients=learner.optimizer.gradients,
            optimizer_squares=learner.optimizer.squares,
            observations_mean=learner.observations.mean,
            observations_deviations=learner.observations.deviations,
            returns_mean=learner.returns.mean,
            returns_deviations=learner.returns.deviations,
        )
        state = {
            "optimizer_steps": learner.optimizer.steps,
            "observations_count": learner.observations.count,
            "returns_count": learner.returns.count,
            "rng": learner.rng.bit_generator.state,
            "next_episodes": learner.next_episodes,
        }
        (folder / STATE_FILE).write_text(json.dumps(state) + "\n", encoding="utf-8")
        if not simulators:
            return "their state was not to be saved"
        try:
            states = self._collector.states()
        except UnsavedSimulatorsError as error:
            return str(error)
        np.savez(folder / SIMULATORS_FILE, *[np.frombuffer(state, np.uint8) for state in states])
        return None

    def close(self) -> list[SimulatorFailure]:
        """End the workers and close the simulators; return what failed in that."""
        return self._collector.close()

    def _new_learner(self) -> _Learner:
        seed, resources = self._experiment.seed, self._experiment.resources
        optimized = self._networks.num_parameters
        if isinstance(self._networks, ActorCritic) and isinstance(self._experiment.algorithm, TRPOSection):
            optimized -= self._networks.num_policy_parameters
        return _Learner(
            parameters=self._networks.initial(generator(seed, Stream.INITIAL_WEIGHTS)),
            optimizer=Adam.create(optimized),
            observations=Moments.empty(len(self._scalable)),
            returns=Moments.empty(1),
            rng=generator(seed, Stream.LEARNER),
            next_episodes=[[0] * resources.envs_per_group for _ in range(resources.env_groups)],
        )

    def _load(self, folder: Path, *, weights_only: bool = False) -> None:
        learner = self._learner
        with np.load(folder / ARRAYS_FILE, allow_pickle=False) as file:
            arrays = dict(file)
        state = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))
        if (
            arrays["parameters"].shape != learner.parameters.shape
            or arrays["observations_mean"].shape != learner.observations.mean.shape
        ):
            raise CheckpointError(
                f"{folder}: its network does not fit this experiment's spaces and [model]\n"
                "    take a checkpoint of the same simulator, with the same [model]"
            )
        learner.parameters = arrays["parameters"]
        learner.observations = Moments(
            state["observations_count"], arrays["observations_mean"], arrays["observations_deviations"]
        )
        learner.returns = Moments(state["returns_count"], arrays["returns_mean"], arrays["returns_deviations"])
        if weights_only:
            return
        sums = arrays["optimizer_gradients"], arrays["optimizer_squares"]
        learner.optimizer = Adam(*sums, state["optimizer_steps"])
        learner.rng.bit_generator.state = state["rng"]
        learner.next_episodes = [[episode + 1 for episode in group] for group in state["next_episodes"]]


def _load_states(folder: Path) -> list[bytes]:
    path = folder / SIMULATORS_FILE
    if not path.is_file():
        return []
    with np.load(path, allow_pickle=False) as states:
        return [states[f"arr_{i}"].tobytes() for i in range(len(states))]
