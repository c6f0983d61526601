"""An env group: a fixed number of simulators that step together, the unit of sampling.

A group has its own random streams and a fixed batch shape, so what it samples depends on the experiment and
its own history, never on which process it lives in or how many others there are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from muster.engines.builtin.advantages import advantages
from muster.engines.builtin.keeping import SimulatorKeeper
from muster.engines.builtin.modelling import ModelSettings
from muster.engines.builtin.networks import Networks
from muster.engines.builtin.pixels import packed
from muster.engines.engine import REWARD_CLIP, Interrupted, SamplingAbandonedError, SimulatorFailure, Tell
from muster.engines.failing import FAILURES
from muster.engines.journal import Call, UnderWay, call_code
from muster.engines.moments import Moments
from muster.policies.normalizer import Scale
from muster.simulators.building import Simulator, find_simulator
from muster.simulators.decoding import ActionDecoder
from muster.simulators.describing import Description
from muster.simulators.encoding import ObservationEncoder, RowEncoder
from muster.simulators.seeding import ProcessRandomness, Stream, generator

Array = NDArray[Any]

SLOW_SECONDS = 1.0
"""When all simulators together take longer for a step, whether to give up is asked before each of them."""


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
    restart_every: int = 0
    check_bounds: bool = True
    step_timeout: float | None = None
    max_failures: int = 100

    def networks(self) -> Networks:
        """Return the networks for these spaces."""
        return self.model.networks(self.observations, self.actions)

    def row_encoder(self) -> RowEncoder:
        """Return what writes the rows that the networks read; the built-in ones also take numbers of columns."""
        encoder = ObservationEncoder(self.observations)
        return encoder if self.model.torch_model is not None else encoder.columns() or encoder


@dataclass(frozen=True)
class Weights:
    """What a group samples with: the networks' flat vector, and the scales of this iteration."""

    parameters: Array
    observation_scale: Scale | None
    reward_std: float


@dataclass(frozen=True)
class Fragment:
    """What a group sampled in one iteration: arrays with a row per step, and what happened on the way.

    Observations are scaled, packed if they are pixels and nothing else, or numbers of columns if they are choices.
    """

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
    """The arrays that one call of `sample` fills; observations are kept raw where they are measured."""

    raw: Array
    inputs: Array
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


class EnvGroup:
    """The simulators of one group, their current observations and unfinished episodes.

    With a folder for journals, what it asks of its simulators can be read there even if its process dies of it.
    """

    _STATE = ("_episode_returns", "_episode_lengths", "_discounted", "_rng", "_randomness")

    def __init__(
        self,
        settings: GroupSettings,
        index: int,
        first_episodes: Sequence[int],
        journals: Path | None = None,
    ) -> None:
        self._settings = settings
        self.index = index
        encoder = ObservationEncoder(settings.observations)
        self._packs = encoder.is_all_pixels
        self._num_inputs = encoder.size
        self._measures = bool(encoder.scalable.any())
        self._encoder = settings.row_encoder()
        self._decoder = ActionDecoder(settings.actions)
        self._networks = settings.networks()
        self._exploration = settings.model.exploration(self._networks)
        self._rng = generator(settings.seed, Stream.ACTIONS, index, *first_episodes)
        self._randomness = ProcessRandomness(settings.seed, Stream.PROCESS, index, *first_episodes)
        count = settings.num_envs
        self._keeper = SimulatorKeeper(settings, index, first_episodes, journals)
        self._current = self._keeper.rows
        self._episode_returns = [0.0] * count
        self._episode_lengths = [0] * count
        self._discounted = np.zeros(count)

    def start(self) -> None:
        """Build the simulators and reset each of them.

        Raises:
            SimulatorError: when that fails again and again.
        """
        with self._randomness.installed():
            self._keeper.start()

    def under_way(self) -> UnderWay | None:
        """Return the call of a simulator that is under way; may be asked by another thread."""
        return self._keeper.journal.under_way()

    def tell_of_failures(self, tell: Tell) -> None:
        """From now on tell of failures when they happen; of those not yet returned, now."""
        self._keeper.tell_of_failures(tell)

    def sample(self, weights: Weights, interrupted: Interrupted = lambda: False) -> Fragment:
        """Step all simulators for the length of a fragment.

        Raises:
            SimulatorError: when a simulator fails again and again.
            SamplingAbandonedError: when `interrupted` says so.
        """
        started = time.perf_counter()
        recording = self._new_recording()
        self._keeper.journal.opens()
        with self._randomness.installed():
            self._fill(recording, weights, interrupted)
        fragment = self._finish(recording, weights, started)
        self._keeper.journal.hands_over()
        return fragment

    def _new_recording(self) -> _Recording:
        length, count = self._settings.fragment_length, self._settings.num_envs
        distribution, width = self._networks.distribution, self._encoder.width
        return _Recording(
            raw=np.empty((length if self._measures else 0, count, width), np.float32),
            inputs=np.empty((length, count, width), np.uint8 if self._packs else self._encoder.dtype),
            masks=np.ones((length, count, sum(self._keeper.mask_sizes)), bool),
            outputs=np.empty((length, count, distribution.num_outputs), np.float32),
            actions=np.empty((length, count, distribution.action_size), distribution.action_dtype),
            rewards=np.zeros((length, count)),
            terminated=np.zeros((length, count), bool),
            ended=np.zeros((length, count), bool),
            valid=np.ones((length, count), bool),
            discounted=np.empty((length, count)),
            episode_starts=[0] * count,
        )

    def _fill(self, recording: _Recording, weights: Weights, interrupted: Interrupted) -> None:
        parts = self._networks.split(weights.parameters)
        noise = self._exploration.noise(self._rng, *recording.actions.shape[:2])
        encode_into, current = self._encoder.encode_into, self._current
        returns, lengths, envs = self._episode_returns, self._episode_lengths, self._keeper.envs
        journal, notes = self._keeper.journal, self._keeper.journal.notes
        step_codes = [call_code(Call.STEP, i) for i in range(len(envs))]
        is_slow = False
        takes_masks = bool(self._keeper.mask_sizes)
        for t in range(self._settings.fragment_length):
            if interrupted():
                raise SamplingAbandonedError
            inputs = self._record_inputs(recording, t, weights)
            masks = self._keeper.masks
            if masks.size:
                recording.masks[t] = masks
            drawn = self._exploration.act(parts, inputs, masks, noise[t])
            recording.outputs[t], recording.actions[t] = drawn
            rewards = recording.rewards[t]
            journal.acts(recording.actions[t])
            began = time.monotonic()
            for i, action in enumerate(self._decoder.decode(recording.actions[t])):
                if is_slow and interrupted():
                    raise SamplingAbandonedError
                notes[0] = step_codes[i]
                try:
                    observation, reward, terminated, truncated, info = envs[i].step(action)
                    reward = float(reward)
                    if not math.isfinite(reward):
                        raise ValueError(f"reward is {reward}")
                    encode_into(current[i], observation)
                    if takes_masks and not (terminated or truncated):
                        self._keeper.read_mask(i, observation, info)
                except FAILURES as error:
                    self._fail(recording, t, i, error)
                    continue
                rewards[i] = reward
                returns[i] += reward
                lengths[i] += 1
                if terminated or truncated:
                    self._end_episode(recording, t, i, bool(terminated))
            if not self._keeper.check.all_good(current):
                self._fail_bad_observations(recording, t)
            journal.rests()
            is_slow = time.monotonic() - began > SLOW_SECONDS
            self._discounted = self._settings.gamma * self._discounted + rewards
            recording.discounted[t] = self._discounted
            self._discounted[recording.ended[t]] = 0.0

    def _record_inputs(self, recording: _Recording, t: int, weights: Weights) -> Array:
        """Keep the current observations; return them as the network reads them."""
        if self._packs:
            recording.inputs[t] = packed(self._current)
            return self._current
        if self._measures:
            recording.raw[t] = self._current
        return self._scale(weights, self._current, recording.inputs[t])

    def _scale(self, weights: Weights, rows: Array, out: Array) -> Array:
        if weights.observation_scale is None:
            out[:] = rows
            return out
        return weights.observation_scale.apply(rows, out)

    def _end_episode(self, recording: _Recording, t: int, i: int, terminated: bool) -> None:
        if problem := self._keeper.check.problem(self._current[i]):
            self._fail_after_step(recording, t, i, problem)
            return
        recording.ended[t, i] = True
        recording.terminated[t, i] = terminated
        if not terminated:
            recording.finals.append((t, i, self._current[i].copy()))
        recording.episodes.append((self._episode_returns[i], self._episode_lengths[i]))
        self._keeper.finished(i)
        self._begin_episode(recording, t, i)

    def _begin_episode(self, recording: _Recording, t: int, i: int) -> None:
        recording.episode_starts[i] = t + 1
        self._episode_returns[i] = 0.0
        self._episode_lengths[i] = 0

    def _fail_bad_observations(self, recording: _Recording, t: int) -> None:
        for i in range(len(self._current)):
            if problem := self._keeper.check.problem(self._current[i]):
                self._fail_after_step(recording, t, i, problem)

    def _fail_after_step(self, recording: _Recording, t: int, i: int, problem: str) -> None:
        """Fail for what a step returned that had been counted already."""
        self._keeper.journal.calls(Call.STEP, i)
        self._episode_lengths[i] -= 1
        self._fail(recording, t, i, ValueError(problem))

    def _fail(self, recording: _Recording, t: int, i: int, error: BaseException) -> None:
        """Drop the episode's steps, and begin the next episode in a simulator that is built anew."""
        recording.valid[recording.episode_starts[i] : t + 1, i] = False
        recording.ended[t, i] = recording.terminated[t, i] = True
        self._keeper.failed(i, error, self._episode_lengths[i])
        self._begin_episode(recording, t, i)

    def _finish(self, recording: _Recording, weights: Weights, started: float) -> Fragment:
        settings = self._settings
        parts = self._networks.split(weights.parameters)
        length, count = recording.rewards.shape
        tails = np.stack([*self._current, *(row for _, _, row in recording.finals)])
        tails = packed(tails) if self._packs else self._scale(weights, tails, np.empty_like(tails))
        flat = recording.inputs.reshape(length * count, -1)
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
            masks=recording.masks.reshape(length * count, -1)[keep, : self._keeper.masks.shape[1]],
            observation_moments=self._observation_moments(recording, keep),
            return_moments=Moments.of(recording.discounted.reshape(-1, 1)[keep]),
            steps=length * count,
            episodes=recording.episodes,
            failures=self._keeper.take_failures(),
            next_episodes=list(self._keeper.episodes),
            seconds=time.perf_counter() - started,
        )

    def _observation_moments(self, recording: _Recording, keep: Any) -> Moments:
        if not self._measures:
            return Moments.empty(self._num_inputs)
        return Moments.of(recording.raw.reshape(-1, self._encoder.width)[keep])

    def state(self) -> bytes:
        """Return all that the group needs to go on exactly.

        Raises:
            Exception: if the simulators do not pickle.
        """
        kept = {name: getattr(self, name) for name in self._STATE}
        pickled: bytes = cloudpickle.dumps((kept, self._current, self._keeper.state()))
        return pickled

    def restore(self, pickled: bytes) -> None:
        """Go on from a saved state; the simulator's module is imported first, since its pickle needs it."""
        find_simulator(self._settings.simulator.id, self._settings.simulator.paths)
        kept, self._current[:], keeper = cloudpickle.loads(pickled)
        self._keeper.restore(keeper)
        for name, value in kept.items():
            setattr(self, name, value)

    def close(self) -> list[SimulatorFailure]:
        """Close the simulators; return what failed in that."""
        return self._keeper.close()
