"""The user's simulator as RLlib steps it: encoded, scaled, counted, and never allowed to break RLlib.

When it fails, the failure is reported, the episode ends there as truncated, and the simulator is rebuilt. When it
fails again and again, the run is told at once.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from muster.engines.engine import REWARD_CLIP
from muster.engines.rllib.masked_modules import with_columns
from muster.engines.rllib.process_state import PROCESS, EscapeError, Link
from muster.engines.rllib.spaces import ObservationCoder, action_space, decode_action
from muster.errors import InputError, MusterError, SimulatorError
from muster.simulators.describing import Description
from muster.simulators.lookup import find_simulator
from muster.simulators.masks import MaskReader
from muster.simulators.seeding import Stream, reset_seed
from muster.simulators.simulator import Simulator
from muster.stepping.calls import Call
from muster.stepping.failures import (
    MAX_FAILURES_IN_A_ROW,
    SamplingAbandonedError,
    SimulatorFailure,
    too_many_in_a_row,
)
from muster.stepping.info_metrics import Episode, InfoMetrics
from muster.stepping.live import FailedCallError, Identity, LiveSimulator
from muster.stepping.rules import Rules
from muster.stepping.scheduled_config import ScheduledConfig

Array = NDArray[Any]


@dataclass(frozen=True)
class GuardSettings:
    """What a guarded simulator is built from; plain data.

    `num_envs` is the number of simulators of an env runner; `start` distinguishes the parts of a resumed run.
    """

    simulator: Simulator
    rules: Rules
    observations: Description
    actions: Description
    is_masked: bool
    num_envs: int
    seed: int
    start: int
    gamma: float
    normalize_observations: bool
    normalize_rewards: bool
    restart_every: int
    metrics: Mapping[str, str]


class GuardedSimulator(gymnasium.Env[Any, Any]):
    """A simulator whose failures are reported; RLlib makes it from `env_config`."""

    def __init__(self, config: Any) -> None:
        settings: GuardSettings = config["settings"]
        link: Link | None = config["link"]
        self._settings = settings
        self._worker = int(config.worker_index or 0)
        self._number = PROCESS.join(link, self._worker, settings.num_envs, settings.rules.step_timeout)
        self._index = max(0, self._worker - 1) * settings.num_envs + self._number % settings.num_envs
        identity = Identity(self._worker, self._number, self._index)
        self._live = LiveSimulator(
            settings.simulator,
            settings.rules,
            identity=identity,
            journals=PROCESS.journals,
            observations=settings.observations,
        )
        self._coder = ObservationCoder(settings.observations)
        self.observation_space = self._coder.space
        self.action_space = action_space(settings.actions)
        self._measures = settings.normalize_observations and bool(self._coder.scalable.any())
        self._masks = MaskReader(settings.observations, settings.actions)
        if settings.is_masked:
            self.observation_space = with_columns(self.observation_space, sum(self._masks.sizes))
        self._current: Array = np.zeros(self.observation_space.shape, np.float32)
        self._episode, self._episodes_since_built = -1, 0
        self._length, self._return, self._discounted = 0, 0.0, 0.0
        self._metrics = InfoMetrics(settings.metrics, 1)
        self._scheduled = ScheduledConfig(settings.simulator, 1)
        # Importing may take long and is no hang; what is wrong with it is reported when it is built.
        with suppress(Exception):
            find_simulator(settings.simulator.id, settings.simulator.paths, settings.simulator.imports)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:
        """Begin an episode, with a seed of its own; build the simulator if it is not there."""
        PROCESS.refresh()
        self._scheduled.wanted = PROCESS.in_force.scheduled
        if self._scheduled.needs_rebuilding(0):
            self.close()
        while True:
            self._episode += 1
            self._length, self._return, self._discounted = 0, 0.0, 0.0
            self._metrics.drop(0)
            self._live.begin(self._episode, self._seed())
            try:
                if not self._live.is_built:
                    self._live.simulator = self._scheduled.simulator(0)
                    self._live.build()
                    self._episodes_since_built = 0
                with self._live.calling(Call.RESET) as env:
                    self._scheduled.apply(0, env)
                observation, info = self._live.reset()
            except FailedCallError as error:
                self._fail(error.failure)
            except MusterError as error:
                _give_up(error)
            else:
                self._take(observation, info, step=0)
                return self._current, {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Step the simulator; if it fails, end the episode at the last observation."""
        if PROCESS.supervision.interrupted():
            raise EscapeError(SamplingAbandonedError())
        PROCESS.refresh()
        PROCESS.sample.steps += 1
        try:
            decoded = decode_action(self._settings.actions, action)
            observation, reward, terminated, truncated, info = self._live.step(decoded)
        except FailedCallError as error:
            self._fail(error.failure)
            return self._current, 0.0, False, True, {}
        self._length += 1
        self._take(observation, info, step=self._length, is_last=terminated or truncated)
        self._return += reward
        if self._metrics:
            self._metrics.add(0, info)
        if terminated or truncated:
            self._finish_episode()
        return self._current, self._scaled(reward), terminated, truncated, {}

    def close(self) -> None:
        """Close the simulator, if it is there; one that cannot close is left to the end of the process."""
        try:
            self._live.close()
        except FailedCallError as error:
            _report(error.failure)

    def _finish_episode(self) -> None:
        PROCESS.sample.episodes.append(Episode(self._return, self._length, self._metrics.take(0)))
        PROCESS.failures_in_a_row.clear()
        self._episodes_since_built += 1
        if self._episodes_since_built == self._settings.restart_every:
            self.close()

    def _take(self, observation: Any, info: Any, *, step: int, is_last: bool = False) -> None:
        row = self._coder.encode(observation)
        if self._measures:
            PROCESS.seen.append(row)
        scale = PROCESS.in_force.observations
        row = row if scale is None else scale.apply(row, np.empty_like(row))
        allowed = None if is_last or not self._masks.sizes else self._masks.read(observation, info)
        if self._settings.is_masked:
            columns = np.ones(sum(self._masks.sizes), np.float32) if allowed is None else allowed
            row = np.concatenate([row, columns], dtype=np.float32)
        elif allowed is not None:
            _give_up(_unexpected_mask(step))
        self._current = row

    def _scaled(self, reward: float) -> float:
        if not self._settings.normalize_rewards:
            return reward
        self._discounted = self._settings.gamma * self._discounted + reward
        PROCESS.discounted.append(self._discounted)
        return min(max(reward / PROCESS.in_force.reward_std, -REWARD_CLIP), REWARD_CLIP)

    def _fail(self, failure: SimulatorFailure) -> None:
        _report(failure)
        self.close()
        in_a_row = PROCESS.failures_in_a_row.get(self._number, 0) + 1
        PROCESS.failures_in_a_row[self._number] = in_a_row
        if in_a_row >= MAX_FAILURES_IN_A_ROW:
            _give_up(too_many_in_a_row(failure, in_a_row))

    def _seed(self) -> int:
        settings = self._settings
        place = (settings.start, PROCESS.life, self._worker, self._number, self._episode)
        return reset_seed(settings.seed, Stream.RESET, *place)


def _unexpected_mask(step: int) -> InputError:
    """Return the error of a simulator whose first mask comes too late for the network to have columns for it."""
    when = f"step {step} of an episode" if step else "a later reset"
    return InputError(
        f"the simulator gave its first action mask at {when}, and none when it was looked at\n"
        "    with RLlib, let every reset give one too (all ones, if all is allowed)"
    )


def _report(failure: SimulatorFailure) -> None:
    try:
        PROCESS.supervision.report(failure)
    except SimulatorError as error:
        _give_up(error)


def _give_up(error: MusterError) -> None:
    """End the run: at once in the driver's own process; from another through the report actor, which ends it."""
    if PROCESS.link is None:
        raise EscapeError(error)

    import ray

    ray.get(PROCESS.link.reports.post.remote(PROCESS.take(), error))
    threading.Event().wait()
