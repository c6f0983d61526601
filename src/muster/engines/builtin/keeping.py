"""The simulators of a group, kept going: built, reset, closed, and built anew when they fail."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from muster.engines.engine import MAX_FAILURES_IN_A_ROW, SimulatorFailure, Tell
from muster.engines.failing import FAILURES, Place, failure_of
from muster.engines.journal import Call, Journal, journal_path
from muster.errors import SimulatorError
from muster.simulators.masks import MaskReader
from muster.simulators.observing import check_for
from muster.simulators.seeding import Stream, reset_seed

if TYPE_CHECKING:
    import gymnasium

    from muster.engines.builtin.groups import GroupSettings

Array = NDArray[Any]


class SimulatorKeeper:
    """Has a simulator in every place of the group, with an episode begun and its observation in its row.

    Failures are kept until they are taken; too many in a row, with no finished episode in between, are an error.
    """

    _STATE = ("envs", "episodes", "masks", "_has_no_masks", "_episodes_since_built", "_failures_in_a_row")

    def __init__(
        self, settings: GroupSettings, index: int, first_episodes: Sequence[int], journals: Path | None
    ) -> None:
        self._settings = settings
        self._index = index
        self._encoder = settings.row_encoder()
        distribution, count = settings.networks().distribution, settings.num_envs
        self.journal = Journal(
            journal_path(journals, index), count, distribution.action_size, distribution.action_dtype
        )
        self.check = check_for(self._encoder, count, bounds=settings.check_bounds)
        self.rows = np.zeros((count, self._encoder.width), self._encoder.dtype)
        self._mask_reader = MaskReader(settings.observations, settings.actions)
        self.masks = np.zeros((count, 0), bool)
        self._has_no_masks = not self._mask_reader.in_observation
        self.envs: list[gymnasium.Env[Any, Any]] = []
        self.episodes = list(first_episodes)
        self._episodes_since_built = [0] * count
        self._failures_in_a_row = [0] * count
        self._failures: list[SimulatorFailure] = []
        self._tell: Tell | None = None

    def start(self) -> None:
        """Build all simulators and begin their episodes.

        Raises:
            SimulatorError: when that fails again and again; so do all that begin an episode.
        """
        for i in range(self._settings.num_envs):
            self._build(i)
        self.journal.rests()

    def finished(self, i: int) -> None:
        """Begin the next episode after one that came to its end."""
        self._failures_in_a_row = [0] * self._settings.num_envs
        self.journal.finishes()
        self._episodes_since_built[i] += 1
        is_to_restart = self._episodes_since_built[i] == self._settings.restart_every
        if is_to_restart:
            self._close(i)
        self.episodes[i] += 1
        if is_to_restart:
            self._build(i)
        else:
            self._begin(i)

    def failed(self, i: int, error: BaseException, step: int) -> None:
        """Record a failure, build the simulator anew and begin the next episode."""
        failure = self._record(i, error, step)
        self._failures_in_a_row[i] += 1
        if self._failures_in_a_row[i] >= MAX_FAILURES_IN_A_ROW:
            raise SimulatorError(
                f"the simulator failed {MAX_FAILURES_IN_A_ROW} times in a row: {failure}\n\n{failure.traceback}",
                self.take_failures(),
            )
        self._close(i)
        self.episodes[i] += 1
        self._build(i)

    @property
    def mask_sizes(self) -> Sequence[int]:
        """The parts of a mask over the actions; none where actions take no mask."""
        return self._mask_reader.sizes

    def read_mask(self, i: int, observation: Any, info: Any) -> None:
        """Keep the mask that a simulator's next action must heed; a step without one allows everything."""
        if not info and self._has_no_masks:
            return
        mask = self._mask_reader.read(observation, info)
        if mask is not None and not self.masks.size:
            self.masks = np.ones((len(self.masks), len(mask)), bool)
            self._has_no_masks = False
        if self.masks.size:
            self.masks[i] = True if mask is None else mask

    def tell_of_failures(self, tell: Tell) -> None:
        """From now on tell of failures when they happen; of those not yet taken, now."""
        self._tell = tell
        for failure in self._failures:
            tell(failure)

    def take_failures(self) -> list[SimulatorFailure]:
        """Return the failures since this was last called."""
        failures, self._failures = self._failures, []
        return failures

    def state(self) -> dict[str, Any]:
        """Return all that goes on after a save."""
        return {"journal": self.journal.state(), **{name: getattr(self, name) for name in self._STATE}}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.journal.restore(state.pop("journal"))
        for name, value in state.items():
            setattr(self, name, value)

    def close(self) -> list[SimulatorFailure]:
        """Close all simulators; return what failed in that, and tell of it in no other way."""
        self._tell = None
        for i in range(len(self.envs)):
            self._close(i)
        self.journal.rests()
        return self.take_failures()

    def _build(self, i: int) -> None:
        self._episodes_since_built[i] = 0
        self.journal.begins(i, self.episodes[i])
        self.journal.calls(Call.BUILD, i)
        try:
            self.envs[i : i + 1] = [self._settings.simulator.build(index=self._number(i))]
        except FAILURES as error:
            self.failed(i, error, 0)
        else:
            self._begin(i)

    def _begin(self, i: int) -> None:
        self.journal.begins(i, self.episodes[i])
        self.journal.calls(Call.RESET, i)
        try:
            observation, info = self.envs[i].reset(seed=self._seed(i))
            self._encoder.encode_into(self.rows[i], observation)
            self.read_mask(i, observation, info)
            if problem := self.check.problem(self.rows[i]):
                raise ValueError(problem)
        except FAILURES as error:
            self.failed(i, error, 0)

    def _close(self, i: int) -> None:
        """Close a simulator, if it is there; one that cannot close is left to the end of the process."""
        if i >= len(self.envs):
            return
        self.journal.calls(Call.CLOSE, i)
        try:
            self.envs[i].close()
        except FAILURES as error:
            self._record(i, error, len(self.journal.actions(i) or []))

    def _record(self, i: int, error: BaseException, step: int) -> SimulatorFailure:
        place = Place(self._index, i, self._number(i), self.episodes[i], self._seed(i), step)
        failure = failure_of(error, place, self.journal.call, self.journal.actions(i))
        self._failures.append(failure)
        self.journal.failed(failure)
        if self._tell is not None:
            self._tell(failure)
        return failure

    def _number(self, i: int) -> int:
        """Return a simulator's number in the run."""
        return self._index * self._settings.num_envs + i

    def _seed(self, i: int) -> int:
        return reset_seed(self._settings.seed, Stream.RESET, self._index, i, self.episodes[i])
