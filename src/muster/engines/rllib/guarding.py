"""The user's simulator as RLlib steps it: encoded, scaled, counted, and never allowed to break RLlib.

When it fails, the failure is recorded with its own traceback and the episode's actions, the episode ends there as
truncated, and the simulator is built anew. When it fails again and again, the run is told at once.
"""

from __future__ import annotations

import math
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from muster.engines.engine import MAX_FAILURES_IN_A_ROW, REWARD_CLIP, SamplingAbandonedError, SimulatorFailure
from muster.engines.failing import FAILURES, Place, failure_of
from muster.engines.journal import Call, Journal
from muster.engines.rllib.spaces import ObservationCoder, action_row, action_space, decode_action
from muster.engines.rllib.station import STATION, EscapeError
from muster.errors import SimulatorError
from muster.simulators.building import Simulator, find_simulator
from muster.simulators.describing import Description
from muster.simulators.observing import NumberCheck
from muster.simulators.seeding import Stream, reset_seed

Array = NDArray[Any]


@dataclass(frozen=True)
class GuardSettings:
    """What a guarded simulator is built from; plain data.

    `num_envs` is the number of simulators of an env runner; `start` tells the parts of a resumed run apart.
    """

    simulator: Simulator
    observations: Description
    actions: Description
    num_envs: int
    seed: int
    start: int
    gamma: float
    normalize_observations: bool
    normalize_rewards: bool
    restart_every: int
    check_bounds: bool
    step_timeout: float | None


class GuardedSimulator(gymnasium.Env[Any, Any]):
    """A simulator whose failures are recorded; RLlib makes it from `env_config`."""

    def __init__(self, config: Any) -> None:
        settings: GuardSettings = config["settings"]
        self._settings = settings
        self._worker = int(config.worker_index or 0)
        self._number = STATION.join(config["collector"], self._worker, settings.step_timeout)
        self._index = max(0, self._worker - 1) * settings.num_envs + self._number % settings.num_envs
        self._coder = ObservationCoder(settings.observations)
        self._check = NumberCheck(self._coder.encoder, 1, bounds=settings.check_bounds)
        self.observation_space = self._coder.space
        self.action_space = action_space(settings.actions)
        dtype = np.float64 if settings.actions["kind"] == "box" else np.int64
        self._journal = Journal(None, 1, math.prod(self.action_space.shape or ()), dtype)
        self._measures = settings.normalize_observations and bool(self._coder.scalable.any())
        self._env: gymnasium.Env[Any, Any] | None = None
        self._call = Call.NONE
        self._current: Array = np.zeros(self._coder.shape, np.float32)
        self._episode, self._episodes_since_built = -1, 0
        self._length, self._return, self._discounted = 0, 0.0, 0.0
        # Importing may take long and is no hang; what is wrong with it will be told when it is built.
        with suppress(Exception):
            find_simulator(settings.simulator.id, settings.simulator.paths)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:
        """Begin an episode, with a seed of its own; build the simulator if it is not there."""
        STATION.refresh()
        while True:
            self._episode += 1
            self._length, self._return, self._discounted = 0, 0.0, 0.0
            self._journal.begins(0, self._episode)
            try:
                if self._env is None:
                    self._calls(Call.BUILD)
                    self._env = self._settings.simulator.build(index=self._index)
                    self._episodes_since_built = 0
                self._calls(Call.RESET)
                observation, _ = self._env.reset(seed=self._seed())
                self._take(observation)
                STATION.rests()
                return self._current, {}
            except FAILURES as error:
                self._fail(error)

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Step the simulator; if it fails, end the episode at the last observation."""
        if STATION.interrupted():
            raise EscapeError(SamplingAbandonedError())
        STATION.refresh()
        STATION.report.steps += 1
        self._journal.acts(action_row(self._settings.actions, action))
        try:
            assert self._env is not None
            self._calls(Call.STEP)
            observation, reward, terminated, truncated, _ = self._env.step(
                decode_action(self._settings.actions, action)
            )
            reward = float(reward)
            if not math.isfinite(reward):
                raise ValueError(f"reward is {reward}")
            self._take(observation)
            STATION.rests()
        except FAILURES as error:
            self._fail(error)
            return self._current, 0.0, False, True, {}
        self._length += 1
        self._return += reward
        if terminated or truncated:
            self._finish_episode()
        return self._current, self._scaled(reward), bool(terminated), bool(truncated), {}

    def close(self) -> None:
        """Close the simulator, if it is there; one that cannot close is left to the end of the process."""
        env, self._env = self._env, None
        if env is None:
            return
        try:
            self._calls(Call.CLOSE)
            env.close()
            STATION.rests()
        except FAILURES as error:
            self._record(error)

    def _calls(self, call: Call) -> None:
        self._call = call
        STATION.calls(call, self._number)

    def _finish_episode(self) -> None:
        STATION.report.episodes.append((self._return, self._length))
        STATION.failures_in_a_row.clear()
        self._episodes_since_built += 1
        if self._episodes_since_built == self._settings.restart_every:
            self.close()

    def _take(self, observation: Any) -> None:
        row = self._coder.encode(observation)
        if problem := self._check.problem(row.reshape(-1)):
            raise ValueError(problem)
        if self._measures:
            STATION.seen.append(row)
        scale = STATION.scales.observations
        self._current = row if scale is None else scale.apply(row, np.empty_like(row))

    def _scaled(self, reward: float) -> float:
        if not self._settings.normalize_rewards:
            return reward
        self._discounted = self._settings.gamma * self._discounted + reward
        STATION.discounted.append(self._discounted)
        return min(max(reward / STATION.scales.reward_std, -REWARD_CLIP), REWARD_CLIP)

    def _record(self, error: BaseException) -> SimulatorFailure:
        STATION.rests()
        place = Place(self._worker, self._number, self._index, self._episode, self._seed(), self._length)
        failure = failure_of(error, place, self._call, self._journal.actions(0))
        STATION.report.failures.append(failure)
        return failure

    def _fail(self, error: BaseException) -> None:
        failure = self._record(error)
        self.close()
        in_a_row = STATION.failures_in_a_row.get(self._number, 0) + 1
        STATION.failures_in_a_row[self._number] = in_a_row
        if in_a_row >= MAX_FAILURES_IN_A_ROW:
            _give_up(f"the simulator failed {in_a_row} times in a row: {failure}\n\n{failure.traceback}")

    def _seed(self) -> int:
        settings = self._settings
        place = (settings.start, STATION.life, self._worker, self._number, self._episode)
        return reset_seed(settings.seed, Stream.RESET, *place)


def _give_up(message: str) -> None:
    """End the run: at once in the driver's own process; from another through the collector, which ends it."""
    report = STATION.take()
    if STATION.collector is None:
        raise EscapeError(SimulatorError(message, report.failures))

    import ray

    ray.get(STATION.collector.post.remote(report, message))
    threading.Event().wait()
