"""A batch of simulators that steps as one, such as Gymnasium's `VectorEnv` or an EnvPool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from muster.errors import MusterError
from muster.simulators.decoding import ActionDecoder
from muster.simulators.encoding import RowEncoder
from muster.stepping.batch_reading import BatchReader, Problems
from muster.stepping.batches import (
    AnyBatch,
    autoreset_mode,
    batched_actions,
    build_batch,
    close_batch,
    final_infos,
    reset_batch,
    seeds_each,
)
from muster.stepping.calls import Call
from muster.stepping.failures import NOTHING, Supervision
from muster.stepping.info_metrics import Episode, InfoMetrics
from muster.stepping.journal import Journal
from muster.stepping.ledger import EpisodeLedger
from muster.stepping.many import Events, SteppingSettings
from muster.stepping.process_state import NumpyErrors
from muster.stepping.scheduled_config import ScheduledConfig

Array = NDArray[Any]


@dataclass(frozen=True)
class _Outcome:
    """What a step of the batch returned.

    `last_rows` are the last observations of episodes, if the rows are the first ones of the next already; what is
    wrong with them is in `last_problems`.
    """

    rewards: Array
    is_terminated: Array
    is_over: Array
    problems: Problems
    last_rows: dict[int, Array]
    last_problems: Problems


class SimulatorBatch:
    """One batch, with an episode under way in each of its simulators.

    A batch that raises is rebuilt, and all its episodes are dropped. If a single simulator returns what a learner
    must not see, only its episode is dropped; the others are cut there, as by a time limit.

    Episodes that the batch begins by itself have no seed of their own: they continue its random numbers.
    """

    _STATE = ("_env", "_returns", "_lengths", "_is_over", "_any_over")

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
        self._reader = BatchReader(settings, encoder)
        self._decoder = ActionDecoder(settings.actions)
        self._ledger = EpisodeLedger(settings, group, first_episodes, journals, supervision.report)
        self._env: AnyBatch | None = None
        self._mode = AutoresetMode.NEXT_STEP
        self._returns, self._lengths = np.zeros(count), np.zeros(count, np.int64)
        self._is_over, self._any_over = np.zeros(count, bool), False
        """Whose episode has ended, if the batch begins the next one in the step after that."""
        self._metrics = InfoMetrics(settings.metrics, count)
        self._scheduled = ScheduledConfig(settings.simulator, count)
        self._numpy_errors = NumpyErrors()

    @property
    def rows(self) -> Array:
        """The current observations, encoded."""
        return self._reader.rows

    @property
    def masks(self) -> Array:
        """Which discrete actions are allowed, without columns if none was ever forbidden."""
        return self._reader.masks

    @property
    def journal(self) -> Journal:
        """What the simulators are asked."""
        return self._ledger.journal

    @property
    def episodes(self) -> list[int]:
        """The numbers of the episodes under way."""
        return self._ledger.episodes

    def start(self) -> None:
        """Build the batch and begin all episodes."""
        self._build()
        self.journal.rests()
        self._numpy_errors.leave()

    def step(self, actions: Array, rewards: Array, terminated: Array, ended: Array) -> Events | None:
        """Step the batch."""
        assert self._env is not None
        self.journal.acts(actions)
        self.journal.calls(Call.STEP, None)
        if self._numpy_errors.wanted is not None:
            self._numpy_errors.enter()
        returned: Any = NOTHING
        events: Events | None = None
        try:
            returned = self._env.step(self._as_batch(actions))
            outcome = self._read(returned)
            if self._metrics:
                self._measure(returned[4], outcome)
        except BaseException as error:
            events = self._drop_all(terminated, ended)
            self._ledger.failed(None, error, 0, returned)
            self._renew(range(len(rewards)), has_failed=True)
        else:
            rewards[:] = outcome.rewards
            self._lengths += 1
            if outcome.is_over.any() or outcome.problems or self._any_over:
                events = self._settle(outcome, rewards, terminated, ended)
            else:
                self._returns += rewards
        if events is not None:
            events.ended = np.flatnonzero(ended).tolist()
        self._numpy_errors.leave()
        self.journal.rests()
        return events

    def configure(self, scheduled: Mapping[str, Any]) -> None:
        """Rebuild the batch if the values of the scheduled keys are new: its simulators change together."""
        self._scheduled.wanted = scheduled
        if self._env is not None and self._scheduled.is_behind(0):
            self._renew(range(len(self.rows)))
            self.journal.rests()
            self._numpy_errors.leave()

    def state(self) -> Any:
        """Return the batch, with all that belongs to its episodes."""
        return {
            **{name: getattr(self, name) for name in self._STATE},
            "rows": self.rows,
            "masks": self.masks,
            "ledger": self._ledger.state(),
            "numpy_errors": self._numpy_errors.wanted,
            "metrics": self._metrics.state(),
            "scheduled": self._scheduled.applied,
        }

    def restore(self, state: Any) -> None:
        """Continue from a saved state."""
        self._reader.rows[:] = state["rows"]
        self._reader.masks = state["masks"]
        self._ledger.restore(state["ledger"])
        self._numpy_errors.wanted = state["numpy_errors"]
        self._metrics.restore(state["metrics"])
        self._scheduled.applied = state["scheduled"]
        for name in self._STATE:
            setattr(self, name, state[name])
        assert self._env is not None
        self._mode = autoreset_mode(self._env)

    def close(self, *, has_failed: bool = False) -> None:
        """Close the batch, if it is there; one that cannot close is left to the end of the process."""
        env, self._env = self._env, None
        if env is None:
            return
        self.journal.calls(Call.CLOSE, None)
        try:
            close_batch(env, has_failed=has_failed)
        except BaseException as error:
            self._ledger.record(None, error, None)
        self.journal.rests()

    def _as_batch(self, actions: Array) -> Any:
        assert self._env is not None
        if self._decoder.decode_array is None:
            return batched_actions(self._env, self._decoder.decode(actions))
        return self._decoder.decode_array(actions).astype(self._env.single_action_space.dtype, copy=False)

    def _read(self, returned: Any) -> _Outcome:
        assert self._env is not None
        count = len(self.rows)
        observations, rewards, terminations, truncations, infos = returned
        rewards = _numbers(rewards, count, "rewards", np.float64)
        is_terminated = _numbers(terminations, count, "terminations", bool)
        is_over = is_terminated | _numbers(truncations, count, "truncations", bool)
        begins = self._mode is AutoresetMode.SAME_STEP
        problems = self._reader.read(observations, infos, None if begins else is_over)
        last_rows: dict[int, Array] = {}
        last_problems: Problems = {}
        if begins and is_over.any():
            over = np.flatnonzero(is_over).tolist()
            last_rows, last_problems = self._reader.last_rows(self._env, infos, over)
        is_finite = np.isfinite(rewards)
        if not is_finite.all():
            wrong = {int(i): f"reward is {rewards[i]}" for i in np.flatnonzero(~is_finite & ~self._is_over)}
            problems, last_problems = (
                {**problems, **{i: text for i, text in wrong.items() if i not in last_rows}},
                {**last_problems, **{i: text for i, text in wrong.items() if i in last_rows}},
            )
            rewards = np.where(is_finite, rewards, 0.0)
        return _Outcome(rewards, is_terminated, is_over, problems, last_rows, last_problems)

    def _measure(self, infos: Any, outcome: _Outcome) -> None:
        """Add a step to the metrics; where the next episode has begun already, the step's `info` is kept apart."""
        stepped = np.flatnonzero(~self._is_over).tolist()
        if outcome.last_rows:
            over = list(outcome.last_rows)
            self._metrics.add_batch(final_infos(infos), over)
            stepped = [i for i in stepped if i not in outcome.last_rows]
        self._metrics.add_batch(infos, stepped)

    def _settle(self, outcome: _Outcome, rewards: Array, terminated: Array, ended: Array) -> Events:
        """Take a step in which episodes end, or begin, or fail."""
        events, skipped = Events(), np.flatnonzero(self._is_over).tolist()
        if skipped:
            self._skip(skipped, events, rewards, terminated, ended)
        self._returns += rewards
        is_over = outcome.is_over & ~self._is_over
        over = np.flatnonzero(is_over).tolist()
        begun = {*skipped, *outcome.last_rows}
        failed = {**{i: text for i, text in outcome.problems.items() if i not in begun}, **outcome.last_problems}
        failed_to_begin = {i: text for i, text in outcome.problems.items() if i in begun and i not in failed}
        for i in over:
            if i not in failed:
                ended[i], terminated[i] = True, outcome.is_terminated[i]
                if not outcome.is_terminated[i]:
                    events.finals.append((i, outcome.last_rows.get(i, self.rows[i]).copy()))
                metrics = self._metrics.take(i)
                events.episodes.append(Episode(float(self._returns[i]), int(self._lengths[i]), metrics))
                self._finish(i)
        self._any_over = bool(over) and self._mode is AutoresetMode.NEXT_STEP
        self._is_over = is_over if self._any_over else np.zeros_like(is_over)
        if failed or failed_to_begin or self._is_due():
            self._fail(failed, events, terminated, ended)
            unbegun = [i for i in over if i not in failed and i not in failed_to_begin]
            self._replace(failed_to_begin, events, ended, unbegun)
        elif over and self._mode is AutoresetMode.DISABLED:
            self._begin(is_over, events, ended)
        return events

    def _skip(self, which: list[int], events: Events, rewards: Array, terminated: Array, ended: Array) -> None:
        """Take it that for some simulators the step was the beginning of an episode, and their action ignored."""
        rewards[which] = 0.0
        ended[which] = terminated[which] = True
        self._lengths[which] = 0
        events.skipped += which

    def _drop_all(self, terminated: Array, ended: Array) -> Events:
        ended[:] = terminated[:] = True
        return Events(dropped=list(range(len(ended))), skipped=np.flatnonzero(self._is_over).tolist())

    def _finish(self, i: int) -> None:
        """Count a finished episode, and number the next."""
        assert self._env is not None
        self._ledger.finished(i)
        self.episodes[i] += 1
        self._returns[i], self._lengths[i] = 0.0, 0
        self._ledger.has_seed[i] = self._mode is AutoresetMode.DISABLED and seeds_each(self._env)
        self.journal.begins(i, self.episodes[i], self._ledger.seed(i))

    def _fail(self, problems: Problems, events: Events, terminated: Array, ended: Array) -> None:
        """Drop the episodes of some simulators."""
        for i, problem in problems.items():
            ended[i] = terminated[i] = True
            events.dropped.append(i)
            self._metrics.drop(i)
            self.journal.calls(Call.STEP, i)
            self._ledger.failed(i, ValueError(problem), int(self._lengths[i]) - 1)

    def _begin(self, which: Array, events: Events, ended: Array) -> None:
        """Begin the next episodes of some simulators, in a batch that leaves this to us."""
        assert self._env is not None
        begun = np.flatnonzero(which).tolist()
        seeds = [self._ledger.seed(i) if begins else None for i, begins in enumerate(which)]
        self.journal.calls(Call.RESET, None)
        returned: Any = NOTHING
        try:
            returned = reset_batch(self._env, seeds, which)
            observations, infos = returned
            problems = self._reader.read_some(observations, infos, which)
        except BaseException as error:
            self._ledger.failed(begun[0] if len(begun) == 1 else None, error, 0, returned)
            self._replace({}, events, ended, [], has_failed=True)
            return
        if problems:
            unbegun = [i for i in begun if i not in problems]
            self._replace(problems, events, ended, unbegun)

    def _replace(
        self,
        failed_to_begin: Problems,
        events: Events,
        ended: Array,
        unbegun: Iterable[int],
        *,
        has_failed: bool = False,
    ) -> None:
        """Cut the episodes under way as a time limit would, and rebuild the batch.

        `failed_to_begin` are those whose first observation is wrong; `unbegun` those that are to begin next, and
        keep their number.
        """
        for i, problem in failed_to_begin.items():
            self.journal.calls(Call.RESET, i)
            self._ledger.failed(i, ValueError(problem), 0)
        for i in np.flatnonzero(~ended).tolist():
            ended[i] = True
            events.finals.append((i, self.rows[i].copy()))
        kept = set(unbegun)
        self._renew([i for i in range(len(ended)) if i not in kept], has_failed=has_failed)

    def _renew(self, abandoned: Iterable[int], *, has_failed: bool = False) -> None:
        self.close(has_failed=has_failed)
        for i in abandoned:
            self.episodes[i] += 1
        self._build()

    def _build(self) -> None:
        """Build the batch, and begin an episode in each of its simulators."""
        count = len(self.rows)
        self._ledger.since_built = [0] * count
        self._is_over, self._any_over = np.zeros(count, bool), False
        self._returns[:], self._lengths[:] = 0.0, 0
        for i in range(count):
            self._metrics.drop(i)
        self._ledger.has_seed = [True] * count
        seeds = self._ledger.begins_all(Call.BUILD)
        returned: Any = NOTHING
        try:
            self._env = build_batch(self._scheduled.simulator(0), count, self._ledger.number(0), seeds)
            self._mode = autoreset_mode(self._env)
            self._ledger.begins_all(Call.RESET)
            returned = reset_batch(self._env, seeds)
            observations, infos = returned
            problems = self._reader.read(observations, infos)
        except MusterError:
            self.journal.rests()
            raise
        except BaseException as error:
            self._ledger.failed(None, error, 0, returned)
            self._renew(range(count), has_failed=True)
            return
        self._ledger.has_seed = [seeds_each(self._env)] * count
        if problems:
            for i, problem in problems.items():
                self.journal.calls(Call.RESET, i)
                self._ledger.failed(i, ValueError(problem), 0)
            self._renew(range(count))

    def _is_due(self) -> bool:
        """Whether the batch is to be rebuilt because it leaks."""
        every = self._settings.restart_every
        return every > 0 and sum(self._ledger.since_built) >= every * len(self.rows)


def _numbers(values: Any, count: int, name: str, dtype: type[Any]) -> Array:
    numbers = np.asarray(values, dtype)
    if numbers.shape != (count,):
        raise ValueError(f"{name} have shape {numbers.shape}, expected ({count},)")
    return numbers
