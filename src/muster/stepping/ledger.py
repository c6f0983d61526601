"""The episodes of a group's simulators: their numbers and seeds, their failures, and when these are too many."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from muster.policies.distributions import distribution_for
from muster.simulators.seeding import Stream, reset_seed
from muster.stepping.calls import Call
from muster.stepping.failures import (
    MAX_FAILURES_IN_A_ROW,
    NOTHING,
    Place,
    Report,
    SimulatorFailure,
    failure_of,
    too_many_in_a_row,
)
from muster.stepping.journal import ActionRows, Journal, journal_path
from muster.stepping.many import SteppingSettings

_BEGINNINGS = (Call.BUILD, Call.RESET)


class EpisodeLedger:
    """Numbers the episodes of every simulator, and reports each failure when it happens."""

    _STATE = ("episodes", "since_built", "has_seed", "_failures_in_a_row")

    def __init__(
        self,
        settings: SteppingSettings,
        group: int,
        first_episodes: Sequence[int],
        journals: Path | None,
        report: Report,
    ) -> None:
        distribution, count = distribution_for(settings.actions), settings.num_envs
        self._settings = settings
        self._group = group
        self._report = report
        self._action_rows = ActionRows(settings.actions, are_choices=True)
        self.journal = Journal(
            journal_path(journals, group),
            count,
            distribution.action_size,
            distribution.action_dtype,
            self._action_rows,
        )
        self.episodes = list(first_episodes)
        self.since_built = [0] * count
        """Episodes that each has finished since it was built."""
        self.has_seed = [True] * count
        """Whether each episode began with its seed, rather than by a batch's own doing."""
        self._failures_in_a_row = [0] * count

    def number(self, i: int) -> int:
        """Return a simulator's number in the run."""
        return self._group * self._settings.num_envs + i

    def seed(self, i: int) -> int:
        """Return the seed of a simulator's episode."""
        return reset_seed(self._settings.seed, Stream.RESET, self._group, i, self.episodes[i])

    def begins(self, call: Call, i: int) -> int:
        """Note that a simulator is about to be built or reset for an episode; return the episode's seed."""
        seed = self.seed(i)
        self.journal.begins(i, self.episodes[i], seed)
        self.journal.calls(call, i)
        return seed

    def begins_all(self, call: Call) -> list[int]:
        """Note the same of all simulators, as a batch; return the seeds of their episodes."""
        seeds = [self.begins(call, i) for i in range(len(self.episodes))]
        self.journal.calls(call, None)
        return seeds

    def finished(self, i: int) -> bool:
        """Count a finished episode; return whether the simulator is to be rebuilt before the next."""
        self._failures_in_a_row = [0] * len(self.episodes)
        self.journal.finishes()
        self.since_built[i] += 1
        return self.since_built[i] == self._settings.restart_every

    def failed(self, i: int | None, error: BaseException, step: int, returned: Any = NOTHING) -> None:
        """Report a failure in the call under way, after so many steps of the episode; None: of a batch.

        Raises:
            SimulatorError: if there are too many in a row, with no finished episode in between.
        """
        failure = self.record(i, error, step, returned)
        counted = i or 0
        self._failures_in_a_row[counted] += 1
        if self._failures_in_a_row[counted] >= MAX_FAILURES_IN_A_ROW:
            raise too_many_in_a_row(failure, MAX_FAILURES_IN_A_ROW)

    def record(
        self, i: int | None, error: BaseException, step: int | None, returned: Any = NOTHING
    ) -> SimulatorFailure:
        """Report a failure that does not count towards those in a row."""
        first, call = i or 0, self.journal.call
        is_known = not any(self.since_built) and call in _BEGINNINGS if i is None else self.has_seed[i]
        rows = self.journal.actions(first) if is_known else None
        actions = None if rows is None else self._action_rows.plain(rows)
        step = len(actions or []) if step is None else step
        seed = self.seed(first) if is_known else None
        place = Place(self._group, i, self.number(first), self.episodes[first], seed, step)
        failure = failure_of(error, place, call, actions, returned)
        # What follows is no call of the simulator, however long it takes.
        self.journal.rests()
        self._report(failure)
        return failure

    def state(self) -> dict[str, Any]:
        """Return all that continues after a save."""
        return {"journal": self.journal.state(), **{name: getattr(self, name) for name in self._STATE}}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""
        self.journal.restore(state["journal"])
        for name in self._STATE:
            setattr(self, name, state[name])
