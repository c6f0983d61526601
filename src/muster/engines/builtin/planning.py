"""What the built-in engine settles before it trains: the simulator's encoding, and a group for each worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.engines.builtin.engine import BuiltinEngine
from muster.engines.engine import Needs, Request
from muster.errors import ExperimentError, Problem
from muster.experiment import LoadedExperiment
from muster.simulators.building import Simulator
from muster.simulators.copying import copy_problem, copy_problem_apart
from muster.simulators.encoding import (
    Description,
    UnsupportedSpaceError,
    describe_actions,
    describe_observations,
)

if TYPE_CHECKING:
    import gymnasium

RAISED_FOR_WORKERS = "raised to resources.workers"


@dataclass(frozen=True)
class BuiltinPlan:
    """PPO or TRPO with so many workers."""

    loaded: LoadedExperiment
    simulator: Simulator
    spaces: tuple[Description, Description]
    num_workers: int

    @property
    def num_simulators(self) -> int:
        """Simulators in all groups."""
        resources = self.loaded.experiment.resources
        return resources.env_groups * resources.envs_per_group

    @property
    def needs(self) -> Needs | None:
        """A CPU for each worker; nothing in one process."""
        return Needs(self.num_workers) if self.num_workers else None

    def build(self, checkpoint: Path | None, weights_from: Path | None) -> BuiltinEngine:
        """Build the engine."""
        return BuiltinEngine(
            self.loaded.experiment, self.simulator, self.spaces, self.num_workers, checkpoint, weights_from
        )


def make_builtin_plan(request: Request) -> BuiltinPlan:
    """Describe the spaces, look whether the simulator can be saved, and have a group for each worker.

    Raises:
        ExperimentError: if a space has no encoding, or a key is another engine's.
    """
    loaded, experiment = request.loaded, request.loaded.experiment
    spaces = _spaces(request.env, loaded)
    if experiment.checkpoint.simulators and (problem := _copy_problem(request)):
        request.notice(f"resuming will begin new episodes: the simulator cannot be saved: {problem}")
        loaded = loaded.replace("checkpoint.simulators", False, problem)
    if experiment.resources.gpus:
        request.notice(
            f"resources.gpus = {experiment.resources.gpus:g} is not used: the built-in network learns on the CPU"
        )
    if experiment.env.step_timeout and not request.num_workers:
        request.notice(
            "env.step_timeout in this one process interrupts what waits or runs in Python; a hang in C code, and "
            "whatever ends the process, ends the run: --workers 1 keeps them apart"
        )
    if experiment.resources.overlap and not request.num_workers:
        request.notice("resources.overlap has no effect without workers: this process samples or learns")
    loaded, num_workers = _fit_groups(loaded, request.num_workers, request.notice, request.resumes)
    return BuiltinPlan(loaded, request.simulator, spaces, num_workers)


def _copy_problem(request: Request) -> str | None:
    """Try in a process of its own if there are to be others: the simulator may end the one it is tried in."""
    return copy_problem_apart(request.simulator) if request.num_workers else copy_problem(request.env)


def _spaces(env: gymnasium.Env[Any, Any], loaded: LoadedExperiment) -> tuple[Description, Description]:
    problems, found = [], []
    for describe, space in (
        (describe_observations, env.observation_space),
        (describe_actions, env.action_space),
    ):
        try:
            found.append(describe(space))
        except UnsupportedSpaceError as error:
            hint = "a Gymnasium wrapper in env.wrappers can convert it"
            if describe is describe_observations:
                hint += "; --engine rllib takes Dict and Tuple"
            problems.append(Problem("env.id", str(error), hint))
    if loaded.experiment.model.class_ is not None:
        place = loaded.place("model.class")
        problems.append(Problem(place, "the built-in engine has no models of your own", "--engine rllib has"))
    if problems:
        raise ExperimentError(loaded.experiment.env.id, problems)
    return found[0], found[1]


def _fit_groups(
    loaded: LoadedExperiment, num_workers: int, notice: Callable[[str], None], groups_are_fixed: bool
) -> tuple[LoadedExperiment, int]:
    """Have at least one group for each worker."""
    groups = loaded.experiment.resources.env_groups
    if num_workers <= groups:
        return loaded, num_workers
    if groups_are_fixed:
        notice(f"the run has {groups} env groups, so only {groups} of {num_workers} workers are used")
        return loaded, groups
    notice(f"resources.env_groups = {num_workers} instead of {groups}: one for each worker")
    return loaded.replace("resources.env_groups", num_workers, RAISED_FOR_WORKERS), num_workers
