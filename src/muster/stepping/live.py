"""One simulator and its calls: each noted, judged, and described if it fails, by the same rules as in training."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from muster.errors import MusterError
from muster.simulators.describing import (
    Description,
    UnsupportedSpaceError,
    describe_actions,
    describe_observations,
    with_mask,
)
from muster.simulators.encoding import ObservationEncoder
from muster.simulators.masks import MaskReader
from muster.simulators.observation_checks import NumberCheck
from muster.simulators.plain_actions import action_row
from muster.simulators.simulator import Simulator
from muster.stepping.building import build
from muster.stepping.calls import Call, UnderWay
from muster.stepping.failures import NOTHING, Place, SimulatorFailure, failure_of
from muster.stepping.journal import ActionRows, Journal, journal_path
from muster.stepping.process_state import NumpyErrors
from muster.stepping.rules import Rules

if TYPE_CHECKING:
    import gymnasium


_journal_in_use: Journal | None = None
"""That of the live simulator which the main thread is calling: the only thread that can be interrupted."""


def call_under_way() -> UnderWay | None:
    """Return the call of a live simulator that is under way in this process; may be asked by another thread."""
    journal = _journal_in_use
    return None if journal is None else journal.under_way()


def _use(journal: Journal | None) -> None:
    global _journal_in_use
    if threading.current_thread() is threading.main_thread():
        _journal_in_use = journal


class FailedCallError(Exception):
    """A call of the simulator failed; `failure` describes it, `raised` is what it raised, if that was here."""

    def __init__(self, failure: SimulatorFailure, raised: BaseException | None = None) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.raised = raised


@dataclass(frozen=True)
class Identity:
    """Which simulator it is; one beside those that are trained in has neither group nor number."""

    group: int | None = None
    env: int | None = None
    index: int | None = None


class Judge:
    """Decides whether a learner may see what a simulator has returned."""

    def __init__(self, observations: Description, actions: Description, *, bounds: bool) -> None:
        self._encoder = ObservationEncoder(observations)
        self._masks = MaskReader(observations, actions)
        self._check = NumberCheck(self._encoder, 1, bounds=bounds)
        self._row = np.zeros(self._encoder.size, np.float32)

    def observation(self, observation: Any, info: Any, *, is_last: bool = False) -> NDArray[Any]:
        """Return an observation as a row, valid until the next; the last one of an episode needs no mask.

        Raises:
            ValueError: if observation or mask do not fit their spaces.
        """
        self._encoder.encode_into(self._row, observation)
        if not is_last and self._masks.sizes and (info or self._masks.in_observation):
            self._masks.read(observation, info)
        if problem := self._check.problem(self._row):
            raise ValueError(problem)
        return self._row

    @staticmethod
    def reward(reward: Any) -> float:
        """Return a reward as a number.

        Raises:
            ValueError, TypeError: if it is none, or not finite.
        """
        try:
            number = float(reward)
        except (TypeError, ValueError):
            raise no_number(reward) from None
        if not math.isfinite(number):
            raise ValueError(f"reward is {number}")
        return number


def no_number(reward: Any) -> TypeError:
    """Return what is wrong with a reward that is no number."""
    shape = getattr(reward, "shape", None)
    if shape and np.size(reward) == 1:
        return TypeError(f"reward has shape {tuple(shape)}, expected a number: return float(reward.item())")
    what = f"has shape {tuple(shape)}" if shape else f"is {reward!r:.60}"
    return TypeError(f"reward {what}, expected a number")


class LiveSimulator:
    """A simulator that is built, reset, stepped and closed through here.

    Every call may raise `FailedCallError`. With a folder for journals, what it was asked can be read there even if
    its process dies of it.
    """

    def __init__(
        self,
        simulator: Simulator,
        rules: Rules,
        *,
        identity: Identity | None = None,
        journals: Path | None = None,
        observations: Description | None = None,
    ) -> None:
        """Prepare to build it; `observations` are what an engine learns from, if other than the built-in one."""
        self._observations = observations
        self.simulator = simulator
        """What the next `build` builds."""
        self._rules = rules
        self._identity = identity or Identity()
        self._journals = journals
        self._env: gymnasium.Env[Any, Any] | None = None
        self._judge: Judge | None = None
        self._length = 0
        self._action_rows: ActionRows | None = None
        self._episode, self._seed = 0, 0
        self._numpy_errors = NumpyErrors()
        self._journal = self._new_journal(1)

    @property
    def env(self) -> gymnasium.Env[Any, Any]:
        """The simulator itself, once it is built."""
        assert self._env is not None
        return self._env

    @property
    def is_built(self) -> bool:
        """Whether there is a simulator."""
        return self._env is not None

    def twin(self, env: gymnasium.Env[Any, Any]) -> LiveSimulator:
        """Return a copy of this simulator as one of its own, called by the same rules."""
        twin = LiveSimulator(self.simulator, self._rules, identity=self._identity, observations=self._observations)
        twin._env = env
        twin._describe(env)
        return twin

    def begin(self, episode: int, seed: int) -> None:
        """Say which episode the next calls belong to."""
        self._episode, self._seed, self._length = episode, seed, 0
        self._journal.begins(0, episode, seed)

    def build(self, render_mode: str | None = None) -> None:
        """Build the simulator.

        Raises:
            MusterError: if there is no such simulator, or it cannot be one.
        """
        self._calls(Call.BUILD)
        try:
            self._env = build(self.simulator, render_mode, self._identity.index)
            self._describe(self._env)
        except MusterError:
            raise
        except BaseException as error:
            raise self._failed(error) from None
        finally:
            self._rests()

    def reset(self) -> tuple[Any, Any]:
        """Begin the episode."""
        self._calls(Call.RESET)
        returned: Any = NOTHING
        try:
            returned = self.env.reset(seed=self._seed)
            observation, info = returned
            if self._judge is not None:
                self._judge.observation(observation, info)
            return observation, info
        except BaseException as error:
            raise self._failed(error, returned) from None
        finally:
            self._rests()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Any]:
        """Take an action."""
        self._note(action)
        self._calls(Call.STEP)
        returned: Any = NOTHING
        try:
            returned = self.env.step(action)
            observation, reward, terminated, truncated, info = returned
            ends = bool(terminated), bool(truncated)
            reward = Judge.reward(reward)
            if self._judge is not None:
                self._judge.observation(observation, info, is_last=any(ends))
            return observation, reward, *ends, info
        except BaseException as error:
            raise self._failed(error, returned) from None
        finally:
            self._rests()

    def render(self) -> Any:
        """Draw the simulator."""
        with self.calling(Call.RENDER) as env:
            return env.render()

    def close(self) -> None:
        """Close the simulator, if it is there; one that cannot close is left to the end of the process."""
        env, self._env = self._env, None
        if env is None:
            return
        self._calls(Call.CLOSE)
        try:
            env.close()
        except BaseException as error:
            raise self._failed(error) from None
        finally:
            self._rests()

    @contextmanager
    def calling(self, call: Call) -> Iterator[gymnasium.Env[Any, Any]]:
        """Call the simulator otherwise than by the methods here; what is raised is its failure."""
        self._calls(call)
        try:
            yield self.env
        except FailedCallError:
            raise
        except BaseException as error:
            raise self._failed(error) from None
        finally:
            self._rests()

    def _describe(self, env: gymnasium.Env[Any, Any]) -> None:
        """Get to know the spaces; one that has no encoding is not judged here, but refused by who trains in it."""
        try:
            actions = describe_actions(env.action_space)
            observations = self._observations or with_mask(
                describe_observations(env.observation_space, self._rules.image_dimensions), actions
            )
        except UnsupportedSpaceError:
            return
        self._judge = Judge(observations, actions, bounds=self._rules.check_bounds)
        self._action_rows = ActionRows(actions, are_choices=False)
        self._journal = self._new_journal(len(action_row(actions, env.action_space.sample())))
        self._journal.begins(0, self._episode, self._seed)

    def _new_journal(self, action_size: int) -> Journal:
        index = self._identity.index
        path = journal_path(self._journals, self.simulator.spare_index if index is None else index)
        return Journal(path, 1, action_size, np.float64, self._action_rows)

    def _note(self, action: Any) -> None:
        self._length += 1
        if self._action_rows is not None:
            self._journal.acts(action_row(self._action_rows.description, action))

    def _calls(self, call: Call) -> None:
        _use(self._journal)
        self._journal.calls(call, 0)
        if self._numpy_errors.wanted is not None:
            self._numpy_errors.enter()

    def _rests(self) -> None:
        _use(None)
        self._journal.rests()
        self._numpy_errors.leave()

    def _failed(self, error: BaseException, returned: Any = NOTHING) -> FailedCallError:
        call, identity = self._journal.call, self._identity
        done = max(0, self._length - (call is Call.STEP))
        place = Place(identity.group, identity.env, identity.index, self._episode, self._seed, done)
        return FailedCallError(failure_of(error, place, call, self._plain_actions(), returned), error)

    def _plain_actions(self) -> list[Any] | None:
        if not self._length:
            return []
        rows = self._journal.actions(0)
        return None if rows is None or self._action_rows is None else self._action_rows.plain(rows)
