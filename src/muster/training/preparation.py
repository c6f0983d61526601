"""What a run needs to know before it starts: the stop rules, the number of workers, the engine's plan."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.clusters.allocation.reading import usable_cpus
from muster.engines.choosing import make_plan
from muster.engines.engine import Plan, Request
from muster.experiment import LoadedExperiment
from muster.experiment.quantities import counted
from muster.experiment.schema import Experiment, ResourcesSection
from muster.runs.folder import RunFolder
from muster.simulators.building import Simulator, build_explained, close_problem
from muster.simulators.masks import random_action
from muster.simulators.seeding import ProcessRandomness, Stream
from muster.training.listening import Listener
from muster.training.memory import require_memory
from muster.training.stopping import with_default_stop

if TYPE_CHECKING:
    import gymnasium

LAUNCH_CPUS_VARIABLE = "MUSTER_LAUNCH_CPUS"
SECONDS_TO_MEASURE = 0.2
CHEAP_STEP_SECONDS = 200e-6


@dataclass(frozen=True)
class Preparation:
    """A resolved experiment, its simulator, and how its engine will train."""

    loaded: LoadedExperiment
    simulator: Simulator
    plan: Plan


def simulator_of(experiment: Experiment, folder: RunFolder | None = None) -> Simulator:
    """Return how to build an experiment's simulator, in a run or on its own.

    One beside those that are trained in, such as for evaluation, has the next index after theirs.
    """
    env, resources = experiment.env, experiment.resources
    return Simulator(
        env.id,
        env.config,
        env.wrappers,
        env.max_episode_steps,
        env.paths,
        str((folder.simulators if folder else Path("simulators")).absolute()),
        resources.env_groups * resources.envs_per_group,
    )


def prepare(loaded: LoadedExperiment, folder: RunFolder, listener: Listener, *, resumes: bool) -> Preparation:
    """Build the simulator once, and settle what the experiment leaves open.

    Raises:
        ExperimentError: if the simulator cannot be found, the engine cannot use it or its own keys, or they need
            more memory than there is.
        SimulatorError: if it cannot be built.
    """
    experiment = loaded.experiment
    simulator = simulator_of(experiment, folder)
    with ProcessRandomness(experiment.seed, Stream.EVALUATION).installed():
        env = build_explained(simulator)
        try:
            loaded = _with_stop(loaded, simulator)
            _tell_of_schedule(loaded.experiment, listener)
            wanted = experiment.resources.workers
            num_workers = _auto_workers(env, experiment.resources, listener) if wanted == "auto" else wanted
            require_memory(loaded, env)
            plan = make_plan(Request(loaded, simulator, env, num_workers, resumes, listener.noticed))
        finally:
            close_problem(env)
    simulator = replace(simulator_of(plan.loaded.experiment, folder), spare_index=plan.num_simulators)
    return Preparation(plan.loaded, simulator, plan)


def _with_stop(loaded: LoadedExperiment, simulator: Simulator) -> LoadedExperiment:
    stop = with_default_stop(loaded.experiment.stop, simulator.reward_threshold())
    if stop is loaded.experiment.stop:
        return loaded
    key, value = next(iter(stop.model_dump(by_alias=True, exclude_none=True).items()))
    source = "simulator's registered threshold" if key == "return" else "default"
    return loaded.replace(f"stop.{key}", value, source)


def _tell_of_schedule(experiment: Experiment, listener: Listener) -> None:
    stop = experiment.stop
    falls = getattr(experiment.algorithm, "lr_schedule", "constant") == "linear"
    if falls and stop.steps is None and stop.iterations is None:
        listener.noticed(
            "algorithm.lr_schedule = linear has no effect: the learning rate falls to 0 at stop.steps or "
            "stop.iterations, and neither is given"
        )


def _auto_workers(env: gymnasium.Env[Any, Any], resources: ResourcesSection, listener: Listener) -> int:
    """Return 0 if the simulator is so fast that moving its data would cost more, else a worker for each CPU.

    Overlap needs workers, and pays with a fast simulator too, if the learner has a CPU to itself. There are never
    more than env groups, since those decide what is learned; but under a launch there are as many as there are
    CPUs besides the learner's.
    """
    if launched := os.environ.get(LAUNCH_CPUS_VARIABLE):
        workers = max(1, int(launched) - 1)
        listener.noticed(
            f"workers = {workers} (auto: {counted(int(launched), 'CPU')} launched, one for the learner)"
        )
        return workers
    cpus, groups = usable_cpus(), resources.env_groups
    if cpus == 1:
        return 0
    seconds = step_seconds(env, SECONDS_TO_MEASURE)
    is_cheap = seconds < CHEAP_STEP_SECONDS
    if is_cheap and not resources.overlap:
        return 0
    speed = f"auto: {cpus} CPUs, {seconds * 1e3:.2g} ms a step"
    if groups < cpus:
        speed += f", {counted(groups, 'env group')}; more of them (resources.env_groups) could use more CPUs"
    workers = min(cpus - 1 if is_cheap else cpus, groups)
    listener.noticed(f"workers = {workers} ({speed})")
    return workers


def step_seconds(env: gymnasium.Env[Any, Any], at_most: float) -> float:
    """Return the time of a step with random actions; a simulator that fails here will be told of in training."""
    steps = 0
    started = time.perf_counter()
    try:
        observation, info = env.reset(seed=0)
        while steps < 1 or time.perf_counter() - started < at_most:
            action = random_action(env.action_space, observation, info)
            observation, _, terminated, truncated, info = env.step(action)
            steps += 1
            if terminated or truncated:
                observation, info = env.reset()
    except Exception:
        steps += 1
    return (time.perf_counter() - started) / steps
