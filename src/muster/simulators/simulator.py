"""The user's simulator as plain data: how it is named, configured and wrapped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.simulators.lookup import extend_search_path, is_batched, is_gymnasium_id


@dataclass(frozen=True)
class Simulator:
    """How to build the user's simulator; plain data, so that any worker can build its own.

    `folder` holds the folders of those that ask for one; `spare_index` is that of a simulator beside the trained
    ones. `vectorized` says whether it steps many at once, None if that is to be found out; `imports` are modules
    that register it; `cpus` are those that one of it uses. `scheduled` are values of the configuration that change
    during a run, `schedule_method` is the simulator's method that takes new ones.
    """

    id: str
    config: dict[str, Any] = field(default_factory=dict)
    wrappers: Sequence[str | dict[str, Any]] = ()
    max_episode_steps: int | None = None
    paths: Sequence[str] = ()
    folder: str = "simulators"
    spare_index: int = 0
    vectorized: bool | None = None
    imports: Sequence[str] = ()
    cpus: int | None = None
    scheduled: Mapping[str, Any] = field(default_factory=dict)
    schedule_method: str | None = None

    @property
    def configuration(self) -> dict[str, Any]:
        """What it is built with now."""
        return {**self.config, **self.scheduled}

    def is_batched(self) -> bool:
        """Return whether it steps many at once.

        Raises:
            ExperimentError: if there is no such simulator.
        """
        extend_search_path(self.paths)
        return is_batched(self.id, self.configuration, self.vectorized)

    def reward_threshold(self) -> float | None:
        """Return the return at which the simulator counts as solved, if it is registered with one."""
        import gymnasium

        if not is_gymnasium_id(self.id):
            return None
        spec = gymnasium.registry.get(self.id.rpartition(":")[2])
        return spec.reward_threshold if spec else None
