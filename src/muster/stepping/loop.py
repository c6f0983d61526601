"""Single simulators stepped one after another: the loop that training spends its time in."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from muster.errors import MusterError
from muster.simulators.decoding import ActionDecoder
from muster.simulators.encoding import RowEncoder
from muster.simulators.masks import MaskReader
from muster.simulators.observation_checks import check_for
from muster.stepping.building import build
from muster.stepping.calls import Call
from muster.stepping.failures import NOTHING, Supervision
from muster.stepping.info_metrics import Episode, InfoMetrics
from muster.stepping.journal import CALL, call_code
from muster.stepping.ledger import EpisodeLedger
from muster.stepping.live import no_number
from muster.stepping.many import Events, SteppingSettings
from muster.stepping.process_state import NumpyErrors
from muster.stepping.scheduled_config import ScheduledConfig

if TYPE_CHECKING:
    import gymnasium

Array = NDArray[Any]

SLOW_SECONDS = 1.0
"""When all simulators together take longer for a step, whether to abandon it is asked before each of them."""


class SimulatorLoop:
    """Has a simulator in every place, with an episode begun and its observation in its row.

    One that fails is closed and rebuilt, and its episode dropped.
    """

    _STATE = ("_envs", "_is_open", "masks", "_has_no_masks", "_returns", "_lengths")

    def __init__(
        self,
        settings: SteppingSettings,
        encoder: RowEncoder,
        group: int,
        first_episodes: Sequence[int],
        journals: Path | None,
        supervision: Supervision,
    ) -> None:
        count = settings.num_envs
        self._settings = settings
        self._supervision = supervision
        self._encode_into = encoder.encode_into
        self._decode = ActionDecoder(settings.actions).decode
        self._check = check_for(encoder, count, bounds=settings.check_bounds)
        self._mask_reader = MaskReader(settings.observations, settings.actions)
        self._takes_masks = bool(self._mask_reader.sizes)
        self._has_no_masks = not self._mask_reader.in_observation
        self._ledger = EpisodeLedger(settings, group, first_episodes, journals, supervision.report)
        self._step_codes = [call_code(Call.STEP, i) for i in range(count)]
        self._envs: list[gymnasium.Env[Any, Any]] = []
        self._is_open = [False] * count
        self._returns = [0.0] * count
        self._lengths = [0] * count
        self._metrics = InfoMetrics(settings.metrics, count)
        self._scheduled = ScheduledConfig(settings.simulator, count)
        self._events = Events()
        self._is_slow = False
        self._numpy_errors = NumpyErrors()
        self._switches = True
        """Whether the simulators may want NumPy to treat errors in their own way; they are asked once built."""
        self.journal, self.episodes = self._ledger.journal, self._ledger.episodes
        self.rows = np.zeros((count, encoder.width), encoder.dtype)
        self.masks = np.zeros((count, 0), bool)

    def start(self) -> None:
        """Build all simulators and begin their episodes."""
        for i in range(self._settings.num_envs):
            self._build(i)
        self.journal.rests()
        self._numpy_errors.leave()

    def step(self, actions: Array, rewards: Array, terminated: Array, ended: Array) -> Events | None:
        """Step one after another; an episode that ends is followed by the next at once."""
        envs, rows, encode_into = self._envs, self.rows, self._encode_into
        returns, lengths = self._returns, self._lengths
        journal, takes_masks, is_slow = self.journal, self._takes_masks, self._is_slow
        metrics = self._metrics or None
        notes, codes, isfinite = journal.notes, self._step_codes, math.isfinite
        events = self._events
        nothing: Any = NOTHING
        if events.ended:
            events.clear()
        journal.acts(actions)
        began = time.monotonic()
        if self._switches and self._numpy_errors.wanted is not None:
            self._numpy_errors.enter()
        for i, action in enumerate(self._decode(actions)):
            if is_slow:
                self._supervision.require_time()
            notes[CALL] = codes[i]
            returned = nothing
            try:
                returned = envs[i].step(action)
                observation, reward, is_terminated, is_truncated, info = returned
                try:
                    reward = float(reward)
                except (TypeError, ValueError):
                    raise no_number(reward) from None
                if not isfinite(reward):
                    raise ValueError(f"reward is {reward}")
                encode_into(rows[i], observation)
                # The truth of a strange value may raise, so it is asked for here.
                is_over = not (not is_terminated and not is_truncated)
                if takes_masks and (info or not self._has_no_masks) and not is_over:
                    self._read_mask(i, observation, info)
                if metrics is not None and info:
                    metrics.add(i, info)
            except BaseException as error:
                ended[i] = terminated[i] = True
                self._fail(i, error, lengths[i], returned)
                continue
            rewards[i] = reward
            returns[i] += reward
            lengths[i] += 1
            if is_over:
                self._end_episode(i, bool(is_terminated), terminated, ended)
        if self._switches:
            self._numpy_errors.leave()
            self._switches = self._numpy_errors.wanted is not None
        if not self._check.all_good(rows):
            for i in range(len(rows)):
                if problem := self._check.problem(rows[i]):
                    self._reject(i, problem, terminated, ended)
        journal.rests()
        self._is_slow = time.monotonic() - began > SLOW_SECONDS
        return events if events.ended else None

    def configure(self, scheduled: Mapping[str, Any]) -> None:
        """Take new values of the scheduled keys of the configuration; each episode keeps those it began with."""
        self._scheduled.wanted = scheduled

    def state(self) -> Any:
        """Return the simulators, with all that belongs to their episodes."""
        return {
            **{name: getattr(self, name) for name in self._STATE},
            "rows": self.rows,
            "ledger": self._ledger.state(),
            "numpy_errors": self._numpy_errors.wanted,
            "metrics": self._metrics.state(),
            "scheduled": self._scheduled.applied,
        }

    def restore(self, state: Any) -> None:
        """Continue from a saved state."""
        self.rows[:] = state["rows"]
        self._ledger.restore(state["ledger"])
        self.episodes = self._ledger.episodes
        self._numpy_errors.wanted = state["numpy_errors"]
        self._metrics.restore(state["metrics"])
        self._scheduled.applied = state["scheduled"]
        for name in self._STATE:
            setattr(self, name, state[name])

    def close(self) -> None:
        """Close all simulators."""
        for i in range(len(self._envs)):
            self._close(i)
        self.journal.rests()

    def _end_episode(self, i: int, is_terminated: bool, terminated: Array, ended: Array) -> None:
        if problem := self._check.problem(self.rows[i]):
            self._reject(i, problem, terminated, ended)
            return
        events = self._events
        events.ended.append(i)
        ended[i] = True
        terminated[i] = is_terminated
        if not is_terminated:
            events.finals.append((i, self.rows[i].copy()))
        events.episodes.append(Episode(self._returns[i], self._lengths[i], self._metrics.take(i)))
        self._returns[i], self._lengths[i] = 0.0, 0
        is_to_restart = self._ledger.finished(i) or self._scheduled.needs_rebuilding(i)
        if is_to_restart:
            self._close(i)
        self.episodes[i] += 1
        if is_to_restart:
            self._build(i)
        else:
            self._begin(i)

    def _reject(self, i: int, problem: str, terminated: Array, ended: Array) -> None:
        """Fail because of an observation whose step was counted already."""
        self.journal.calls(Call.STEP, i)
        ended[i] = terminated[i] = True
        self._fail(i, ValueError(problem), self._lengths[i] - 1)

    def _fail(self, i: int, error: BaseException, step: int, returned: Any = NOTHING) -> None:
        """Drop the episode, and begin the next one in a simulator that is rebuilt."""
        self._events.ended.append(i)
        self._events.dropped.append(i)
        self._returns[i], self._lengths[i] = 0.0, 0
        self._metrics.drop(i)
        self._rebuild(i, error, step, returned)

    def _rebuild(self, i: int, error: BaseException, step: int, returned: Any = NOTHING) -> None:
        self._ledger.failed(i, error, step, returned)
        self._close(i)
        self.episodes[i] += 1
        self._build(i)

    def _build(self, i: int) -> None:
        self._ledger.since_built[i] = 0
        self._switches = True
        self._ledger.begins(Call.BUILD, i)
        try:
            self._envs[i : i + 1] = [build(self._scheduled.simulator(i), index=self._ledger.number(i))]
            self._is_open[i] = True
        except MusterError:
            self.journal.rests()
            raise
        except BaseException as error:
            self._rebuild(i, error, 0)
        else:
            self._begin(i)

    def _begin(self, i: int) -> None:
        seed = self._ledger.begins(Call.RESET, i)
        returned: Any = NOTHING
        try:
            self._scheduled.apply(i, self._envs[i])
            returned = self._envs[i].reset(seed=seed)
            observation, info = returned
            self._encode_into(self.rows[i], observation)
            if self._takes_masks and (info or not self._has_no_masks):
                self._read_mask(i, observation, info)
            if problem := self._check.problem(self.rows[i]):
                raise ValueError(problem)
        except BaseException as error:
            self._rebuild(i, error, 0, returned)

    def _close(self, i: int) -> None:
        """Close a simulator, if it is there; one that cannot close is left to the end of the process."""
        if not self._is_open[i]:
            return
        self._is_open[i] = False
        self.journal.calls(Call.CLOSE, i)
        try:
            self._envs[i].close()
        except BaseException as error:
            self._ledger.record(i, error, None)

    def _read_mask(self, i: int, observation: Any, info: Any) -> None:
        """Keep the mask that a simulator's next action must heed; a step without one allows everything."""
        mask = self._mask_reader.read(observation, info)
        if mask is not None and not self.masks.size:
            self.masks = np.ones((len(self.masks), len(mask)), bool)
            self._has_no_masks = False
        if self.masks.size:
            self.masks[i] = True if mask is None else mask
