"""The keys of a configuration that change during a run: what each simulator has, and what it is to have next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from muster.simulators.simulator import Simulator

if TYPE_CHECKING:
    import gymnasium


class ScheduledConfig:
    """Keeps the scheduled values of some simulators up to date: by a method of theirs, or by rebuilding them."""

    def __init__(self, simulator: Simulator, num_envs: int) -> None:
        self._simulator, self._method = simulator, simulator.schedule_method
        self.wanted: Mapping[str, Any] = simulator.scheduled
        """The values that episodes are to begin with."""
        self.applied: list[Mapping[str, Any]] = [simulator.scheduled] * num_envs
        """The values that each simulator has."""

    def is_behind(self, i: int) -> bool:
        """Return whether a simulator has other values than it should."""
        return self.applied[i] != self.wanted

    def needs_rebuilding(self, i: int) -> bool:
        """Return whether a simulator can get its new values only by being rebuilt."""
        return self._method is None and self.is_behind(i)

    def simulator(self, i: int) -> Simulator:
        """Return how to build a simulator that has the wanted values."""
        self.applied[i] = self.wanted
        return replace(self._simulator, scheduled=self.wanted)

    def apply(self, i: int, env: gymnasium.Env[Any, Any]) -> None:
        """Give a simulator its new values through its method, before an episode begins.

        Raises:
            Exception: whatever the method raises.
        """
        if self._method is None or not self.is_behind(i):
            return
        before = self.applied[i]
        changed = {key: value for key, value in self.wanted.items() if before.get(key) != value}
        env.get_wrapper_attr(self._method)(**changed)
        self.applied[i] = self.wanted
