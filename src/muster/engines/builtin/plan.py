"""What the built-in engine decides before it trains: the task, and a group for each worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from muster.engines.builtin.engine import BuiltinEngine
from muster.engines.builtin.networks.model_settings import Task
from muster.engines.builtin.task import make_task
from muster.engines.engine import Needs, Request, RunSupervision
from muster.experiment import LoadedExperiment
from muster.experiment.quantities import counted
from muster.simulators.simulator import Simulator
from muster.stepping.hang_watch import IN_ONE_PROCESS

RAISED_FOR_WORKERS = "raised to resources.workers"


@dataclass(frozen=True)
class BuiltinPlan:
    """How the built-in engine will train an experiment."""

    loaded: LoadedExperiment
    simulator: Simulator
    task: Task
    num_workers: int

    @property
    def num_simulators(self) -> int:
        """Simulators in all groups."""
        resources = self.loaded.experiment.resources
        return resources.env_groups * resources.envs_per_group

    @property
    def needs(self) -> Needs | None:
        """A CPU for each worker, or as many as a simulator uses; nothing in one process."""
        return Needs(self.num_workers * (self.simulator.cpus or 1)) if self.num_workers else None

    def build(
        self,
        checkpoint: Path | None,
        weights_from: Path | None,
        supervision: RunSupervision,
        scheduled: Mapping[str, Any],
    ) -> BuiltinEngine:
        """Build the engine."""
        return BuiltinEngine(
            self.loaded.experiment,
            replace(self.simulator, scheduled=scheduled),
            self.task,
            self.num_workers,
            supervision,
            checkpoint,
            weights_from,
        )


def make_builtin_plan(request: Request) -> BuiltinPlan:
    """Make the task, check whether the simulator can be saved, and provide a group for each worker.

    Raises:
        ExperimentError: if a space has no encoding, or the network or exploration asked for does not fit.
        InputError: if torch is needed and not installed.
    """
    loaded, experiment = request.loaded, request.loaded.experiment
    task = make_task(request.survey, loaded)
    if experiment.checkpoint.simulators and (problem := request.survey.pickle_problem):
        request.notice(f"resuming will begin new episodes: the simulator cannot be saved: {problem}")
        loaded = loaded.replace("checkpoint.simulators", False, problem)
    if experiment.resources.gpus:
        request.notice(
            f"resources.gpus = {experiment.resources.gpus:g} is not used: the built-in network learns on the CPU"
        )
    if experiment.env.step_timeout and not request.num_workers:
        request.notice(IN_ONE_PROCESS)
    if experiment.resources.overlap and not request.num_workers:
        request.notice("resources.overlap has no effect without workers: this process samples or learns")
    loaded, num_workers = _fit_groups(loaded, request.num_workers, request.notice, request.resumes)
    return BuiltinPlan(loaded, request.simulator, task, num_workers)


def _fit_groups(
    loaded: LoadedExperiment, num_workers: int, notice: Callable[[str], None], groups_are_fixed: bool
) -> tuple[LoadedExperiment, int]:
    """Provide at least one group for each worker."""
    groups = loaded.experiment.resources.env_groups
    if num_workers <= groups:
        return loaded, num_workers
    if groups_are_fixed:
        notice(f"the run has {counted(groups, 'env group')}, so only {groups} of {num_workers} workers are used")
        return loaded, groups
    notice(f"resources.env_groups = {num_workers} instead of {groups}: one for each worker")
    return loaded.replace("resources.env_groups", num_workers, RAISED_FOR_WORKERS), num_workers
