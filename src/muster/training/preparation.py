"""What a run needs to know before it starts: the simulator's spaces, the stop rules, the number of workers."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from muster.clusters.allocation.reading import usable_cpus
from muster.errors import ExperimentError, Problem
from muster.experiment import LoadedExperiment
from muster.experiment.schema import Experiment
from muster.simulators.building import Simulator, build_explained
from muster.simulators.copying import copy_problem
from muster.simulators.encoding import (
    Description,
    UnsupportedSpaceError,
    describe_actions,
    describe_observations,
)
from muster.simulators.seeding import ProcessRandomness, Stream
from muster.training.listening import Listener
from muster.training.resuming import RAISED_FOR_WORKERS
from muster.training.stopping import with_default_stop

if TYPE_CHECKING:
    import gymnasium

LAUNCH_CPUS_VARIABLE = "MUSTER_LAUNCH_CPUS"
SECONDS_TO_MEASURE = 0.2
CHEAP_STEP_SECONDS = 200e-6


@dataclass(frozen=True)
class Preparation:
    """A resolved experiment, and what was found out about its simulator and this machine."""

    loaded: LoadedExperiment
    simulator: Simulator
    spaces: tuple[Description, Description]
    num_workers: int


def simulator_of(experiment: Experiment) -> Simulator:
    """Return how to build an experiment's simulator."""
    env = experiment.env
    return Simulator(env.id, env.config, env.wrappers, env.max_episode_steps, env.paths)


def prepare(loaded: LoadedExperiment, listener: Listener, *, groups_are_fixed: bool) -> Preparation:
    """Build the simulator once, and settle what the experiment leaves open.

    Raises:
        ExperimentError: if the simulator cannot be found, or its spaces cannot be used.
        SimulatorError: if it cannot be built.
    """
    experiment = loaded.experiment
    simulator = simulator_of(experiment)
    with ProcessRandomness(experiment.seed, Stream.EVALUATION).installed():
        env = build_explained(simulator)
        try:
            spaces = _spaces(env, experiment.env.id)
            wanted = experiment.resources.workers
            num_workers = _auto_workers(env, listener) if wanted == "auto" else wanted
            if experiment.checkpoint.simulators and (problem := copy_problem(env)):
                listener.noticed(f"resuming will begin new episodes: the simulator cannot be saved: {problem}")
                loaded = loaded.replace("checkpoint.simulators", False, problem)
        finally:
            env.close()
    if experiment.resources.gpus:
        listener.noticed(
            f"resources.gpus = {experiment.resources.gpus:g} is not used: the built-in network learns on the CPU"
        )
    loaded, num_workers = _fit_groups(loaded, num_workers, listener, groups_are_fixed)
    stop = with_default_stop(experiment.stop, simulator.reward_threshold())
    if stop is not experiment.stop:
        key, value = next(iter(stop.model_dump(by_alias=True, exclude_none=True).items()))
        source = "simulator's registered threshold" if key == "return" else "default"
        loaded = loaded.replace(f"stop.{key}", value, source)
    return Preparation(loaded, simulator, spaces, num_workers)


def _spaces(env: gymnasium.Env[Any, Any], identifier: str) -> tuple[Description, Description]:
    problems, found = [], []
    for describe, space in (
        (describe_observations, env.observation_space),
        (describe_actions, env.action_space),
    ):
        try:
            found.append(describe(space))
        except UnsupportedSpaceError as error:
            problems.append(Problem("env.id", str(error), "a Gymnasium wrapper in env.wrappers can convert it"))
    if problems:
        raise ExperimentError(identifier, problems)
    return found[0], found[1]


def _auto_workers(env: gymnasium.Env[Any, Any], listener: Listener) -> int:
    """Return 0 if the simulator is so fast that moving its data would cost more, else a worker per spare CPU."""
    if launched := os.environ.get(LAUNCH_CPUS_VARIABLE):
        workers = max(1, int(launched) - 1)
        listener.noticed(f"workers = {workers} (auto: {launched} CPUs launched, one for the learner)")
        return workers
    cpus = usable_cpus()
    if cpus == 1:
        return 0
    seconds = step_seconds(env, SECONDS_TO_MEASURE)
    if seconds < CHEAP_STEP_SECONDS:
        return 0
    listener.noticed(
        f"workers = {cpus - 1} (auto: {cpus} CPUs, one for the learner; {seconds * 1e3:.2g} ms a step)"
    )
    return cpus - 1


def step_seconds(env: gymnasium.Env[Any, Any], at_most: float) -> float:
    """Return the time of a step with random actions; a simulator that fails here will be told of in training."""
    steps = 0
    started = time.perf_counter()
    try:
        env.reset(seed=0)
        while steps < 1 or time.perf_counter() - started < at_most:
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            steps += 1
            if terminated or truncated:
                env.reset()
    except Exception:
        steps += 1
    return (time.perf_counter() - started) / steps


def _fit_groups(
    loaded: LoadedExperiment, num_workers: int, listener: Listener, groups_are_fixed: bool
) -> tuple[LoadedExperiment, int]:
    """Have at least one group for each worker."""
    groups = loaded.experiment.resources.env_groups
    if num_workers <= groups:
        return loaded, num_workers
    if groups_are_fixed:
        listener.noticed(f"the run has {groups} env groups, so only {groups} of {num_workers} workers are used")
        return loaded, groups
    listener.noticed(f"resources.env_groups = {num_workers} instead of {groups}: one for each worker")
    return loaded.replace("resources.env_groups", num_workers, RAISED_FOR_WORKERS), num_workers
