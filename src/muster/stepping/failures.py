"""The rules of failure: what counts as one, how it is described, and when there are too many.

They hold wherever a simulator is called: in training, evaluation, `check`, replay and RLlib.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from typing import Any

import gymnasium

from muster.errors import SimulatorError
from muster.stepping.calls import Call

MAX_FAILURES_IN_A_ROW = 3
LONGEST_MESSAGE = 4_000
LONGEST_TRACEBACK = 60_000

_REPORTED = "_reported_by_muster"
"""Marks an exception that was described: the next one, raised while it was handled, is another failure."""
_PACKAGE = str(Path(__file__).parents[1])
_GYMNASIUM = str(Path(gymnasium.__file__).parent)
_RETURNS = {
    Call.RESET: ("observation", "info"),
    Call.STEP: ("observation", "reward", "terminated", "truncated", "info"),
}
NOTHING: tuple[()] = ()
"""Stands for what a call has returned when it has not returned."""

Report = Callable[["SimulatorFailure"], None]
"""Takes each failure once, when it happens."""

Interrupted = Callable[[], bool]
"""Whether to abandon what is under way; raises RayLostError when Ray has ended."""


class CallInterrupt(KeyboardInterrupt):
    """Raised by muster into a simulator's call to end it; every other exception there is the simulator's own."""


class SamplingAbandonedError(Exception):
    """Sampling was abandoned in the middle, because the run must save now."""


@dataclass(frozen=True)
class Supervision:
    """Who looks after simulators: where failures are reported, and whether to abandon what is under way."""

    report: Report
    interrupted: Interrupted = lambda: False

    def report_all(self, failures: Sequence[SimulatorFailure]) -> None:
        """Report several failures; if they become too many on the way, the others are reported first.

        Raises:
            SimulatorError: if they are too many.
        """
        too_many = None
        for failure in failures:
            try:
                self.report(failure)
            except SimulatorError as error:
                too_many = too_many or error
        if too_many is not None:
            raise too_many

    def require_time(self) -> None:
        """Go ahead only if nothing is to be abandoned.

        Raises:
            SamplingAbandonedError: otherwise.
        """
        if self.interrupted():
            raise SamplingAbandonedError


@dataclass(frozen=True)
class SimulatorFailure:
    """One failure of the user's simulator: where, when, its own traceback, and what repeats it.

    `step` counts the steps done before; `index` is the simulator's number in the run; `actions` are those that
    `step` was given, as JSON holds them, the one that failed last, or None if they are not known. A simulator
    beside those that are trained in has neither group nor number; if a batch of simulators failed, it is not known
    which of them did. An episode that a batch began by itself has no seed.
    """

    group: int | None
    env: int | None
    episode: int
    seed: int | None
    step: int
    error: str
    traceback: str
    call: str = "step"
    index: int | None = 0
    actions: list[Any] | None = None

    def __str__(self) -> str:
        if self.group is not None and self.env is None:
            return f"{self.error} (in {self.call} of a batch: group {self.group}, all of its simulators)"
        place = "" if self.group is None else f"group {self.group}, simulator {self.env}, "
        seed = "" if self.seed is None else f"seed {self.seed}, "
        return f"{self.error} (in {self.call}: {place}episode {self.episode}, {seed}step {self.step})"


@dataclass(frozen=True)
class Place:
    """Where and when a simulator failed; see `SimulatorFailure`."""

    group: int | None
    env: int | None
    index: int | None
    episode: int
    seed: int | None
    step: int


def failure_of(
    error: BaseException, place: Place, call: Call, actions: list[Any] | None, returned: Any = NOTHING
) -> SimulatorFailure:
    """Describe a failure by what was raised; `returned` is what the call had returned by then.

    Raises:
        CallInterrupt: if that is what was raised.
    """
    if isinstance(error, CallInterrupt):
        raise error
    return SimulatorFailure(
        place.group,
        place.env,
        place.episode,
        place.seed,
        place.step,
        _wrong_count(call, returned) or describe(error),
        own_traceback(error),
        call.word,
        place.index,
        actions,
    )


def too_many_in_a_row(failure: SimulatorFailure, count: int) -> SimulatorError:
    """Return the error of a simulator that has failed so often without a finished episode in between."""
    return simulator_error(f"the simulator failed {count} times in a row: {failure}", failure)


def simulator_error(message: str, failure: SimulatorFailure) -> SimulatorError:
    """Return an error that shows a message and then the simulator's own traceback, if there is one."""
    error = SimulatorError(f"{message}\n\n{failure.traceback}".rstrip())
    error.traceback = failure.traceback
    return error


def describe(error: BaseException) -> str:
    """Return type and message of whatever a simulator raised: printable, and of limited length."""
    try:
        message = str(error)
    except BaseException as another:
        message = f"(its message cannot be shown: __str__ raised {type(another).__name__})"
    return f"{type(error).__name__}: {printable(message, LONGEST_MESSAGE)}"


def own_traceback(error: BaseException) -> str:
    """Return the simulator's own part of a traceback, without the frames of muster's; empty if nothing is left.

    It begins where Gymnasium's wrappers call the simulator, unless the failure is Gymnasium's own.
    """
    if getattr(error.__context__, _REPORTED, False):
        error.__context__ = None
    with suppress(AttributeError):
        setattr(error, _REPORTED, True)
    described = traceback.TracebackException(type(error), error, error.__traceback__, compact=True)
    frames = [frame for frame in described.stack if not frame.filename.startswith(_PACKAGE)]
    if not frames:
        return ""
    own = list(dropwhile(lambda frame: frame.filename.startswith(_GYMNASIUM), frames))
    described.stack = traceback.StackSummary.from_list(own or frames)
    return printable("".join(described.format()), LONGEST_TRACEBACK)


def printable(text: str, longest: int) -> str:
    """Return a text that any file takes, cut in the middle if it is long."""
    if len(text) > longest:
        cut = len(text) - longest
        text = f"{text[: longest // 2]} [... {cut:,} characters ...] {text[-longest // 2 :]}"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _wrong_count(call: Call, returned: Any) -> str | None:
    """Say what a call should have returned, if it has returned something else."""
    names = _RETURNS.get(call, ())
    if returned is NOTHING or (isinstance(returned, Sequence) and len(returned) == len(names)):
        return None
    count = f"{len(returned)} values" if isinstance(returned, tuple | list) else f"a {type(returned).__name__}"
    return f"{call.word} must return {', '.join(names)}: it returned {count}"
