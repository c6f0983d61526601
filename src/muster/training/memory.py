"""Is there enough memory for what an experiment asks? A lower bound, to refuse what can never fit."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from muster.clusters.allocation.machine import this_machine
from muster.clusters.local import ADDRESS_VARIABLE
from muster.errors import ExperimentError, Problem
from muster.experiment import LoadedExperiment

if TYPE_CHECKING:
    from muster.simulators.describing import Spaces

NUMBER_BYTES = 4
NETWORK_COPIES = 8
"""A policy and a value network, each with weights, gradients and Adam's two averages."""
SIMULATOR_BYTES = 1024
WORKER_BYTES = 32 * 1024**2
GIBIBYTE = 1024**3


def require_memory(loaded: LoadedExperiment, spaces: Spaces) -> None:
    """Refuse networks, batches and numbers of simulators that this host's memory cannot hold.

    Raises:
        ExperimentError: naming each key, what it needs and what there is.
    """
    available = available_memory()
    if available is None:
        return
    needs = _needs(loaded, _size(spaces.observation_space))
    problems = [
        Problem(
            loaded.place(key),
            f"{value!r}: needs at least {needed / GIBIBYTE:,.1f} GiB; expected at most the "
            f"{available / GIBIBYTE:,.1f} GiB of memory here",
            "give a smaller number",
        )
        for key, (value, needed) in needs.items()
        if needed > available
    ]
    if problems:
        raise ExperimentError(loaded.subject, problems)


def _needs(loaded: LoadedExperiment, num_inputs: int) -> dict[str, tuple[object, int]]:
    """Return the keys that decide how much memory is used, with their values and bytes."""
    experiment = loaded.experiment
    hidden, resources = experiment.model.hidden, experiment.resources
    weights = sum(a * b for a, b in pairwise([num_inputs, *hidden, 1]))
    simulators = resources.env_groups * resources.envs_per_group
    larger = "env_groups" if resources.env_groups >= resources.envs_per_group else "envs_per_group"
    needs: dict[str, tuple[object, int]] = {
        "model.hidden": (hidden, weights * NUMBER_BYTES * NETWORK_COPIES),
        f"resources.{larger}": (getattr(resources, larger), simulators * SIMULATOR_BYTES),
    }
    batch = getattr(experiment.algorithm, "train_batch_size", None)
    if isinstance(batch, int):
        needs["algorithm.train_batch_size"] = batch, batch * (num_inputs + 1) * NUMBER_BYTES
    if isinstance(resources.workers, int) and ADDRESS_VARIABLE not in os.environ:
        needs["resources.workers"] = resources.workers, resources.workers * WORKER_BYTES
    return needs


def _size(space: Any) -> int:
    """Return how many numbers an observation has; 1 if that is not known."""
    from gymnasium.spaces.utils import flatdim

    try:
        return max(1, int(flatdim(space)))
    except (NotImplementedError, ValueError, TypeError):
        return 1


def available_memory() -> int | None:
    """Return the memory that this process may use, in bytes, if that is known."""
    machine = this_machine()
    group = machine.cgroup_memory.value if machine.cgroup_memory else None
    return min((limit for limit in (machine.memory, group) if limit), default=None)
