"""An env group: a fixed number of simulators that step together, the unit of sampling.

A group has its own random streams and a fixed batch shape, so what it samples depends on the experiment and
its own history, never on which process it lives in or how many others there are.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from muster.engines.builtin.networks.model_settings import ModelSettings
from muster.engines.builtin.networks.protocol import Networks
from muster.engines.builtin.networks.row_formats import RowFormat
from muster.engines.builtin.sampling.fragments import Fragment, Recording, Weights
from muster.engines.builtin.sampling.learning_rows import Discounting, learning_rows
from muster.engines.moments import Moments
from muster.simulators.describing import mask_sizes
from muster.simulators.lookup import find_simulator
from muster.simulators.seeding import ProcessRandomness, Stream, generator
from muster.stepping.calls import UnderWay
from muster.stepping.failures import SamplingAbandonedError, SimulatorFailure, Supervision
from muster.stepping.making import make_simulators
from muster.stepping.many import SteppingSettings
from muster.stepping.process_state import NUMPY_ERRORS

Array = NDArray[Any]


@dataclass(frozen=True)
class GroupSettings:
    """What every group is built from; plain data."""

    stepping: SteppingSettings
    fragment_length: int
    discounting: Discounting
    model: ModelSettings

    def scheduled(self, values: Mapping[str, Any]) -> GroupSettings:
        """Return the settings of groups whose simulators are built with other scheduled values."""
        if self.stepping.simulator.scheduled == values:
            return self
        simulator = replace(self.stepping.simulator, scheduled=values)
        return replace(self, stepping=replace(self.stepping, simulator=simulator))

    def networks(self) -> Networks:
        """Return the networks for these spaces."""
        return self.model.networks(self.stepping.observations, self.stepping.actions)

    def row_format(self) -> RowFormat:
        """Return the format of the rows that the networks read."""
        return self.model.row_format(self.stepping.observations)


class EnvGroup:
    """The simulators of one group, with the random streams that belong to them.

    With a folder for journals, what it asks of its simulators can be read there even if its process dies of it.
    """

    _STATE = ("_discounted", "_rng", "_randomness")

    def __init__(
        self,
        settings: GroupSettings,
        index: int,
        first_episodes: Sequence[int],
        supervision: Supervision,
        journals: Path | None = None,
    ) -> None:
        stepping = settings.stepping
        self._settings = settings
        self._supervision = replace(supervision, report=self._report)
        self._reports_to = supervision.report
        self._num_failures = 0
        self.index = index
        self._row_format = settings.row_format()
        self._is_measured = self._row_format.is_measured
        self._networks = settings.networks()
        self._exploration = settings.model.exploration(self._networks)
        self._rng = generator(stepping.seed, Stream.ACTIONS, index, *first_episodes)
        self._randomness = ProcessRandomness(stepping.seed, Stream.PROCESS, index, *first_episodes)
        self._simulators = make_simulators(
            stepping, self._row_format.encoder, index, first_episodes, journals, self._supervision
        )
        self._discounted = np.zeros(stepping.num_envs)

    def start(self) -> None:
        """Build the simulators and reset each of them.

        Raises:
            SimulatorError: when that fails again and again.
        """
        with self._randomness.installed():
            self._simulators.start()

    def under_way(self) -> UnderWay | None:
        """Return the call of a simulator that is under way; may be asked by another thread."""
        return self._simulators.journal.under_way()

    def sample(self, weights: Weights) -> Fragment:
        """Step all simulators for the length of a fragment.

        Raises:
            SimulatorError: when a simulator fails again and again.
            SamplingAbandonedError: when there is no time left.
        """
        started = time.perf_counter()
        self._num_failures = 0
        recording = self._new_recording()
        with self._randomness.installed(), np.errstate(**NUMPY_ERRORS):
            try:
                self._simulators.configure(weights.scheduled)
                self._fill(recording, weights)
            finally:
                self._simulators.journal.rests()
        return self._finish(recording, weights, started)

    def _report(self, failure: SimulatorFailure) -> None:
        self._num_failures += 1
        self._reports_to(failure)

    def _new_recording(self) -> Recording:
        length, count = self._settings.fragment_length, self._settings.stepping.num_envs
        distribution, width = self._networks.distribution, self._row_format.encoder.width
        return Recording(
            raw=np.empty((length if self._is_measured else 0, count, width), np.float32),
            inputs=np.empty((length, count, width), self._row_format.kept_dtype),
            masks=np.ones((length, count, sum(mask_sizes(self._settings.stepping.actions))), bool),
            outputs=np.empty((length, count, distribution.num_outputs), np.float32),
            actions=np.empty((length, count, distribution.action_size), distribution.action_dtype),
            rewards=np.zeros((length, count)),
            terminated=np.zeros((length, count), bool),
            ended=np.zeros((length, count), bool),
            valid=np.ones((length, count), bool),
            discounted=np.empty((length, count)),
            episode_starts=[0] * count,
        )

    def _fill(self, recording: Recording, weights: Weights) -> None:
        parts = self._networks.split(weights.parameters)
        noise = self._exploration.noise(self._rng, *recording.actions.shape[:2])
        simulators, interrupted = self._simulators, self._supervision.interrupted
        gamma = self._settings.discounting.gamma
        for t in range(self._settings.fragment_length):
            if interrupted():
                raise SamplingAbandonedError
            inputs = self._record_inputs(recording, t, weights)
            masks = simulators.masks
            if masks.size:
                recording.masks[t] = masks
            drawn = self._exploration.act(parts, inputs, masks, noise[t])
            recording.outputs[t], recording.actions[t] = drawn
            rewards, ended = recording.rewards[t], recording.ended[t]
            events = simulators.step(recording.actions[t], rewards, recording.terminated[t], ended)
            if events is not None:
                recording.add(t, events)
            self._discounted = gamma * self._discounted + rewards
            recording.discounted[t] = self._discounted
            self._discounted[ended] = 0.0

    def _record_inputs(self, recording: Recording, t: int, weights: Weights) -> Array:
        """Keep the current observations; return them as the network reads them."""
        rows = self._simulators.rows
        if self._is_measured:
            recording.raw[t] = rows
        return self._row_format.keep(rows, weights.observation_scale, recording.inputs[t])

    def _finish(self, recording: Recording, weights: Weights, started: float) -> Fragment:
        length, count = recording.rewards.shape
        recording.last_rows = np.stack([*self._simulators.rows, *(row for _, _, row in recording.finals)])
        recording.masks = recording.masks[:, :, : self._simulators.masks.shape[1]]
        keep = recording.kept_rows
        rows = learning_rows(recording, weights, self._networks, self._row_format, self._settings.discounting)
        return Fragment(
            *rows,
            observation_moments=self._observation_moments(recording, keep),
            return_moments=Moments.of(recording.discounted.reshape(-1, 1)[keep]),
            steps=length * count - recording.num_skipped,
            episodes=recording.episodes,
            num_failures=self._num_failures,
            next_episodes=list(self._simulators.episodes),
            seconds=time.perf_counter() - started,
            recording=None if weights.scales_are_known else recording,
        )

    def _observation_moments(self, recording: Recording, keep: Any) -> Moments:
        if not self._is_measured:
            return Moments.empty(len(self._row_format.scalable))
        return Moments.of(recording.raw.reshape(-1, self._row_format.encoder.width)[keep])

    def state(self) -> bytes:
        """Return all that the group needs to continue exactly.

        Raises:
            Exception: if the simulators do not pickle.
        """
        kept = {name: getattr(self, name) for name in self._STATE}
        pickled: bytes = cloudpickle.dumps((kept, self._simulators.state()))
        return pickled

    def restore(self, pickled: bytes) -> None:
        """Continue from a saved state; the simulator's module is imported first, since its pickle needs it."""
        simulator = self._settings.stepping.simulator
        find_simulator(simulator.id, simulator.paths, simulator.imports)
        kept, simulators = cloudpickle.loads(pickled)
        self._simulators.restore(simulators)
        for name, value in kept.items():
            setattr(self, name, value)

    def close(self) -> None:
        """Close the simulators."""
        self._simulators.close()
