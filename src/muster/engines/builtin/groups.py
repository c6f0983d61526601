"""An env group: a fixed number of simulators that step together, the unit of sampling.

A group has its own random streams and a fixed batch shape, so what it samples depends on the experiment and
its own history, never on which process it lives in or how many others there are.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from muster.engines.builtin.advantages import advantages
from muster.engines.builtin.modelling import ModelSettings
from muster.engines.builtin.networks import Networks
from muster.engines.engine import (
    MAX_FAILURES_IN_A_ROW,
    REWARD_CLIP,
    SamplingAbandonedError,
    SimulatorFailure,
)
from muster.engines.moments import Moments
from muster.errors import SimulatorError
from muster.policies.normalizer import Scale
from muster.simulators.building import Simulator, find_simulator
from muster.simulators.decoding import ActionDecoder
from muster.simulators.describing import Description
from muster.simulators.encoding import ObservationEncoder
from muster.simulators.masks import MaskReader
from muster.simulators.seeding import ProcessRandomness, Stream, generator, reset_seed

if TYPE_CHECKING:
    import gymnasium

Array = NDArray[Any]


@dataclass(frozen=True)
class GroupSettings:
    """What every group is built from; plain data."""

    simulator: Simulator
    observations: Description
    actions: Description
    num_envs: int
    fragment_length: int
    seed: int
    gamma: float
    lambda_: float
    model: ModelSettings

    def networks(self) -> Networks:
        """Return the networks for these spaces."""
        return self.model.networks(self.observations, self.actions)


@dataclass(frozen=True)
class Weights:
    """What a group samples with: the networks' flat vector, and the scales of this iteration."""

    parameters: Array
    observation_scale: Scale | None
    reward_std: float


@dataclass(frozen=True)
class Fragment:
    """What a group sampled in one iteration: arrays with a row per step, and what happened on the way."""

    observations: Array
    actions: Array
    log_probs: Array
    advantages: Array
    returns: Array
    masks: Array
    observation_moments: Moments
    return_moments: Moments
    steps: int
    episodes: list[tuple[float, int]]
    failures: list[SimulatorFailure]
    next_episodes: list[int]
    seconds: float


@dataclass
class _Recording:
    """The arrays that one call of `sample` fills."""

    raw: Array
    scaled: Array
    masks: Array
    outputs: Array
    actions: Array
    rewards: Array
    terminated: Array
    ended: Array
    valid: Array
    discounted: Array
    episode_starts: list[int]
    finals: list[tuple[int, int, Array]] = field(default_factory=list)
    episodes: list[tuple[float, int]] = field(default_factory=list)
    failures: list[SimulatorFailure] = field(default_factory=list)


class EnvGroup:
    """The simulators of one group, their current observations and unfinished episodes."""

    _STATE = (
        "_envs",
        "_current",
        "_masks",
        "_episodes",
        "_episode_returns",
        "_episode_lengths",
        "_discounted",
        "_failures_in_a_row",
        "_rng",
        "_randomness",
    )

    def __init__(self, settings: GroupSettings, index: int, first_episodes: Sequence[int]) -> None:
        self._settings = settings
        self.index = index
        self._encoder = ObservationEncoder(settings.observations)
        self._decoder = ActionDecoder(settings.actions)
        self._networks = settings.networks()
        self._exploration = settings.model.exploration(self._networks)
        self._rng = generator(settings.seed, Stream.ACTIONS, index, *first_episodes)
        self._randomness = ProcessRandomness(settings.seed, Stream.PROCESS, index, *first_episodes)
        count = settings.num_envs
        self._episodes = list(first_episodes)
        self._current = np.zeros((count, self._encoder.size), np.float32)
        self._mask_reader = MaskReader(settings.observations, settings.actions)
        self._masks = np.zeros((count, 0), bool)
        self._episode_returns = [0.0] * count
        self._episode_lengths = [0] * count
        self._discounted = np.zeros(count)
        self._failures_in_a_row = [0] * count
        self._envs: list[gymnasium.Env[Any, Any]] = []
        self._first_recording: _Recording | None = None

    def start(self) -> None:
        """Build the simulators and reset each of them.

        Raises:
            SimulatorError: when that fails again and again.
        """
        recording = self._new_recording()
        with self._randomness.installed():
            for i in range(self._settings.num_envs):
                self._build(recording, -1, i)
        self._first_recording = recording

    def sample(self, weights: Weights, interrupted: Callable[[], bool] = lambda: False) -> Fragment:
        """Step all simulators for the length of a fragment.

        Raises:
            SimulatorError: when a simulator fails again and again.
            SamplingAbandonedError: when `interrupted` says so.
        """
        started = time.perf_counter()
        recording, self._first_recording = self._first_recording or self._new_recording(), None
        with self._randomness.installed():
            self._fill(recording, weights, interrupted)
        return self._finish(recording, weights, started)

    def _new_recording(self) -> _Recording:
        length, count = self._settings.fragment_length, self._settings.num_envs
        distribution = self._networks.distribution
        return _Recording(
            raw=np.empty((length, count, self._encoder.size), np.float32),
            scaled=np.empty((length, count, self._encoder.size), np.float32),
            masks=np.ones((length, count, sum(self._mask_reader.sizes)), bool),
            outputs=np.empty((length, count, distribution.num_outputs), np.float32),
            actions=np.empty((length, count, distribution.action_size), distribution.action_dtype),
            rewards=np.zeros((length, count)),
            terminated=np.zeros((length, count), bool),
            ended=np.zeros((length, count), bool),
            valid=np.ones((length, count), bool),
            discounted=np.empty((length, count)),
            episode_starts=[0] * count,
        )

    def _fill(self, recording: _Recording, weights: Weights, interrupted: Callable[[], bool]) -> None:
        parts = self._networks.split(weights.parameters)
        noise = self._exploration.noise(self._rng, *recording.actions.shape[:2])
        encode_into, current = self._encoder.encode_into, self._current
        returns, lengths = self._episode_returns, self._episode_lengths
        takes_masks = bool(self._mask_reader.sizes)
        for t in range(self._settings.fragment_length):
            if interrupted():
                raise SamplingAbandonedError
            recording.raw[t] = current
            inputs = self._scale(weights, current, recording.scaled[t])
            if self._masks.size:
                recording.masks[t] = self._masks
            drawn = self._exploration.act(parts, inputs, self._masks, noise[t])
            recording.outputs[t], recording.actions[t] = drawn
            rewards = recording.rewards[t]
            for i, action in enumerate(self._decoder.decode(recording.actions[t])):
                try:
                    observation, reward, terminated, truncated, info = self._envs[i].step(action)
                    reward = float(reward)
                    if not math.isfinite(reward):
                        raise ValueError(f"reward is {reward}")
                    encode_into(current[i], observation)
                    if takes_masks and not (terminated or truncated):
                        self._read_mask(i, observation, info)
                except Exception as error:
                    self._fail(recording, t, i, error)
                    continue
                rewards[i] = reward
                returns[i] += reward
                lengths[i] += 1
                if terminated or truncated:
                    self._end_episode(recording, t, i, bool(terminated))
            if not math.isfinite(current.sum()):
                self._fail_non_finite(recording, t)
            self._discounted = self._settings.gamma * self._discounted + rewards
            recording.discounted[t] = self._discounted
            self._discounted[recording.ended[t]] = 0.0

    def _scale(self, weights: Weights, rows: Array, out: Array) -> Array:
        if weights.observation_scale is None:
            out[:] = rows
            return out
        return weights.observation_scale.apply(rows, out)

    def _end_episode(self, recording: _Recording, t: int, i: int, terminated: bool) -> None:
        if not np.isfinite(self._current[i]).all():
            self._fail(recording, t, i, ValueError("observation is not finite"))
            return
        recording.ended[t, i] = True
        recording.terminated[t, i] = terminated
        if not terminated:
            recording.finals.append((t, i, self._current[i].copy()))
        recording.episodes.append((self._episode_returns[i], self._episode_lengths[i]))
        self._failures_in_a_row = [0] * len(self._envs)
        self._episodes[i] += 1
        self._begin_episode(recording, t, i)

    def _begin_episode(self, recording: _Recording, t: int, i: int) -> None:
        recording.episode_starts[i] = t + 1
        self._episode_returns[i] = 0.0
        self._episode_lengths[i] = 0
        try:
            observation, info = self._envs[i].reset(seed=self._seed(i))
            self._encoder.encode_into(self._current[i], observation)
            self._read_mask(i, observation, info)
            if not np.isfinite(self._current[i]).all():
                raise ValueError("observation is not finite")
        except Exception as error:
            self._fail(recording, t, i, error)

    def _read_mask(self, i: int, observation: Any, info: Any) -> None:
        """Keep the mask that a simulator's next action must heed; a step without one allows everything."""
        mask = self._mask_reader.read(observation, info)
        if mask is not None and not self._masks.size:
            self._masks = np.ones((len(self._masks), len(mask)), bool)
        if self._masks.size:
            self._masks[i] = True if mask is None else mask

    def _fail_non_finite(self, recording: _Recording, t: int) -> None:
        for i in np.flatnonzero(~np.isfinite(self._current).all(axis=1)):
            self._fail(recording, t, int(i), ValueError("observation is not finite"))

    def _fail(self, recording: _Recording, t: int, i: int, error: Exception) -> None:
        """Record a failure, drop the episode's steps, rebuild the simulator and begin the next episode."""
        failure = self._describe(i, error)
        recording.failures.append(failure)
        if (began := recording.episode_starts[i]) <= t:
            recording.valid[began : t + 1, i] = False
            recording.ended[t, i] = recording.terminated[t, i] = True
        self._failures_in_a_row[i] += 1
        if self._failures_in_a_row[i] >= MAX_FAILURES_IN_A_ROW:
            raise SimulatorError(
                f"the simulator failed {MAX_FAILURES_IN_A_ROW} times in a row: {failure}\n\n{failure.traceback}",
                recording.failures,
            )
        self._episodes[i] += 1
        self._close(i)
        self._build(recording, t, i)

    def _build(self, recording: _Recording, t: int, i: int) -> None:
        """Build a simulator, in its place, and begin an episode."""
        try:
            self._envs[i : i + 1] = [self._settings.simulator.build()]
        except Exception as error:
            self._fail(recording, t, i, error)
        else:
            self._begin_episode(recording, t, i)

    def _describe(self, i: int, error: Exception) -> SimulatorFailure:
        frames = error.__traceback__.tb_next if error.__traceback__ else None
        return SimulatorFailure(
            self.index,
            i,
            self._episodes[i],
            self._seed(i),
            self._episode_lengths[i],
            f"{type(error).__name__}: {error}",
            "".join(traceback.format_exception(type(error), error, frames)),
        )

    def _seed(self, i: int) -> int:
        return reset_seed(self._settings.seed, Stream.RESET, self.index, i, self._episodes[i])

    def _finish(self, recording: _Recording, weights: Weights, started: float) -> Fragment:
        settings = self._settings
        parts = self._networks.split(weights.parameters)
        length, count = recording.rewards.shape
        tails = np.stack([*self._current, *(row for _, _, row in recording.finals)])
        tails = self._scale(weights, tails, np.empty_like(tails))
        flat = recording.scaled.reshape(length * count, -1)
        all_values = self._networks.values(parts, np.concatenate([flat, tails]))
        values = all_values[: len(flat)].reshape(length, count)
        next_values = np.concatenate([values[1:], all_values[None, len(flat) : len(flat) + count]])
        for (t, i, _), value in zip(recording.finals, all_values[len(flat) + count :], strict=True):
            next_values[t, i] = value
        next_values[recording.terminated] = 0.0
        rewards = np.clip(recording.rewards / weights.reward_std, -REWARD_CLIP, REWARD_CLIP).astype(np.float32)
        gains = advantages(rewards, values, next_values, recording.ended, settings.gamma, settings.lambda_)
        actions = recording.actions.reshape(length * count, -1)
        outputs = recording.outputs.reshape(length * count, -1)
        log_probs = self._networks.distribution.log_prob(outputs, actions)
        keep = slice(None) if recording.valid.all() else recording.valid.reshape(-1)
        return Fragment(
            observations=flat[keep],
            actions=actions[keep],
            log_probs=log_probs[keep],
            advantages=gains.reshape(-1)[keep],
            returns=(gains + values).reshape(-1)[keep],
            masks=recording.masks.reshape(length * count, -1)[keep, : self._masks.shape[1]],
            observation_moments=Moments.of(recording.raw.reshape(length * count, -1)[keep]),
            return_moments=Moments.of(recording.discounted.reshape(-1, 1)[keep]),
            steps=length * count,
            episodes=recording.episodes,
            failures=recording.failures,
            next_episodes=list(self._episodes),
            seconds=time.perf_counter() - started,
        )

    def state(self) -> bytes:
        """Return all that the group needs to go on exactly.

        Raises:
            Exception: if the simulators do not pickle.
        """
        pickled: bytes = cloudpickle.dumps({name: getattr(self, name) for name in self._STATE})
        return pickled

    def restore(self, pickled: bytes) -> None:
        """Go on from a saved state; the simulator's module is imported first, since its pickle needs it."""
        find_simulator(self._settings.simulator.id, self._settings.simulator.paths)
        for name, value in cloudpickle.loads(pickled).items():
            setattr(self, name, value)

    def close(self) -> None:
        """Close the simulators."""
        for i in range(len(self._envs)):
            self._close(i)

    def _close(self, i: int) -> None:
        """Close a simulator, if it is there; one that cannot close is left to the end of the process."""
        with suppress(Exception):
            self._envs[i].close()
