"""What a run needs to know before it starts: the stop rules, the number of workers, the engine's plan."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from muster.clusters.allocation.reading import usable_cpus
from muster.engines.choosing import make_plan
from muster.engines.engine import Plan, Request, rules_of
from muster.environment_variables import LAUNCH_CPUS_VARIABLE
from muster.errors import ExperimentError
from muster.experiment import LoadedExperiment
from muster.experiment.quantities import counted
from muster.experiment.schema import Experiment, ResourcesSection
from muster.experiment.source import DEFAULT
from muster.runs.folder import RunFolder
from muster.simulators.lookup import find_simulator
from muster.simulators.simulator import Simulator
from muster.stepping.apart import ApartProcess
from muster.stepping.survey import Survey, Wanted, survey_apart, survey_here
from muster.training.fitting_defaults import with_fitting_defaults
from muster.training.listener import Listener
from muster.training.memory import require_memory
from muster.training.schedule import require_stages, stages_to_come
from muster.training.stopping import with_default_stop

SECONDS_TO_MEASURE = 0.2
CHEAP_STEP_SECONDS = 200e-6


@dataclass(frozen=True)
class Preparation:
    """A resolved experiment, its simulator, and how its engine will train."""

    loaded: LoadedExperiment
    simulator: Simulator
    plan: Plan
    can_be_filmed: bool


def prepare(loaded: LoadedExperiment, folder: RunFolder, listener: Listener, *, resumes: bool) -> Preparation:
    """Build the simulator once, and settle what the experiment leaves open.

    Raises:
        ExperimentError: if the simulator cannot be found, the engine cannot use it or its own keys, or they need
            more memory than there is.
        SimulatorError: if it cannot be built.
    """
    experiment = loaded.experiment
    simulator = experiment.simulator(folder.simulators)
    survey = _survey(experiment, simulator, resumes=resumes)
    require_stages(loaded, survey)
    loaded = _with_stop(loaded, survey.reward_threshold)
    if not resumes:
        loaded = with_fitting_defaults(loaded, is_batched=survey.is_batched)
    _tell_of_learning_rate(loaded, listener)
    wanted = experiment.resources.workers
    num_workers = _auto_workers(survey, experiment, listener) if wanted == "auto" else wanted
    require_memory(loaded, survey)
    plan = make_plan(Request(loaded, simulator, survey, num_workers, resumes, listener.noticed))
    simulator = replace(plan.loaded.experiment.simulator(folder.simulators), spare_index=plan.num_simulators)
    return Preparation(plan.loaded, simulator, plan, survey.can_be_filmed)


def _survey(experiment: Experiment, simulator: Simulator, *, resumes: bool) -> Survey:
    """Look at the simulator: here if all is to happen in this process, else in one that it may end.

    One that only this process knows, such as a class of the script that is run, can only be looked at here.
    """
    rules = rules_of(experiment)
    wanted = Wanted(
        experiment.seed,
        SECONDS_TO_MEASURE if _speed_decides(experiment.resources) else 0.0,
        pickling=experiment.checkpoint.simulators and experiment.algorithm.engine == "builtin",
        mask=experiment.algorithm.engine == "rllib",
        stages=() if resumes else stages_to_come(experiment.env),
    )
    if experiment.resources.workers == 0:
        return survey_here(simulator, rules, wanted)
    process = ApartProcess(rules.step_timeout)
    try:
        return survey_apart(simulator, rules, wanted, process)
    except ExperimentError:
        find_simulator(simulator.id, simulator.paths, simulator.imports)
        return survey_here(simulator, rules, wanted)
    finally:
        process.close()


def _with_stop(loaded: LoadedExperiment, reward_threshold: float | None) -> LoadedExperiment:
    stop = with_default_stop(loaded.experiment.stop, reward_threshold)
    if stop is loaded.experiment.stop:
        return loaded
    key, value = next(iter(stop.model_dump(by_alias=True, exclude_none=True).items()))
    source = "simulator's registered threshold" if key == "return" else DEFAULT
    return loaded.replace(f"stop.{key}", value, source)


def _tell_of_learning_rate(loaded: LoadedExperiment, listener: Listener) -> None:
    """Say that a falling rate which was asked for has no effect."""
    stop = loaded.experiment.stop
    falls = getattr(loaded.experiment.algorithm, "lr_schedule", "constant") == "linear"
    is_asked_for = loaded.sources.get("algorithm.lr_schedule", DEFAULT) != DEFAULT
    if falls and is_asked_for and stop.steps is None and stop.iterations is None:
        listener.noticed(
            "algorithm.lr_schedule = linear has no effect: the learning rate falls to 0 at stop.steps or "
            "stop.iterations, and neither is given"
        )


def _speed_decides(resources: ResourcesSection) -> bool:
    """Whether the number of workers depends on the simulator's speed."""
    return resources.workers == "auto" and not os.environ.get(LAUNCH_CPUS_VARIABLE) and usable_cpus() > 1


def _auto_workers(survey: Survey, experiment: Experiment, listener: Listener) -> int:
    """Return 0 if the simulator is so fast that moving its data would cost more, else a worker for each CPU.

    Overlap needs workers, and pays with a fast simulator too, if the learner has a CPU to itself. There are never
    more than env groups, since those decide what is learned; but under a launch there are as many as there are
    CPUs besides the learner's. A simulator that uses several CPUs makes them fewer.
    """
    each, resources = experiment.env.cpus or 1, experiment.resources
    of_each = "" if each == 1 else f", {each} for each simulator"
    if launched := os.environ.get(LAUNCH_CPUS_VARIABLE):
        workers = max(1, (int(launched) - 1) // each)
        listener.noticed(
            f"workers = {workers} (auto: {counted(int(launched), 'CPU')} launched, one for the learner{of_each})"
        )
        return workers
    cpus, groups, seconds = usable_cpus(), resources.env_groups, survey.step_seconds
    if cpus == 1:
        return 0
    is_cheap = seconds is not None and seconds < CHEAP_STEP_SECONDS
    if is_cheap and not resources.overlap:
        return 0
    speed = "the simulator failed when it was measured" if seconds is None else f"{seconds * 1e3:.2g} ms a step"
    speed = f"auto: {cpus} CPUs, {speed}{of_each}"
    most = max(1, (cpus - 1 if is_cheap else cpus) // each)
    if groups < most:
        speed += f", {counted(groups, 'env group')}; more of them (resources.env_groups) could use more CPUs"
    workers = min(most, groups)
    listener.noticed(f"workers = {workers} ({speed})")
    return workers
