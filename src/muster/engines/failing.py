"""A failure of the simulator, from what it raised or from what its process left behind."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any

from muster.engines.engine import SimulatorFailure
from muster.engines.journal import Call
from muster.engines.journal_reading import LastWords
from muster.simulators.seeding import Stream, reset_seed

FAILURES = (Exception, SystemExit)
"""What a simulator may raise without ending the run; `sys.exit()` is not for it to call."""


@dataclass(frozen=True)
class Place:
    """Where and when a simulator failed; one beside those that are trained in has no group and no number."""

    group: int | None
    env: int | None
    index: int | None
    episode: int
    seed: int
    step: int


def failure_of(error: BaseException, place: Place, call: Call, actions: list[Any] | None) -> SimulatorFailure:
    """Describe a failure by what was raised, with the simulator's own part of the traceback."""
    frames = error.__traceback__.tb_next if error.__traceback__ else None
    message = f"{type(error).__name__}: {error}"
    if frames is None and isinstance(error, ValueError) and "to unpack" in str(error):
        expected = (
            "observation and info" if call is Call.RESET else "observation, reward, terminated, truncated, info"
        )
        message = f"{call.name.lower()} must return {expected}: {error}"
    return SimulatorFailure(
        place.group,
        place.env,
        place.episode,
        place.seed,
        place.step,
        message,
        "".join(traceback.format_exception(type(error), error, frames)),
        call.name.lower(),
        place.index,
        actions,
    )


def failure_from(words: LastWords, seed: int, cause: str, trace: str) -> SimulatorFailure:
    """Describe the call in which a process ended."""
    episode, call = words.episodes[words.env], words.call
    taken = len(words.actions or [])
    return SimulatorFailure(
        words.group,
        words.env,
        episode,
        reset_seed(seed, Stream.RESET, words.group, words.env, episode),
        max(0, taken - 1) if call is Call.STEP else taken,
        cause,
        _simulator_s_part(trace),
        call.name.lower(),
        words.group * len(words.episodes) + words.env,
        words.actions,
    )


def _simulator_s_part(trace: str) -> str:
    """Return the stack of the thread that stepped the simulator, less what is muster's own."""
    blocks = [block for block in trace.split("\n\n") if "  File " in block]
    if not blocks:
        return trace
    lines = blocks[-1].splitlines()
    ours = next((k for k, line in enumerate(lines) if "/muster/engines/builtin/" in line), len(lines))
    return "\n".join(lines[:ours])


def cause_of_death(call: Call, trace: str, report: str) -> str:
    """Name what ended a process in the middle of a call: by the stack that it left, and by Ray's report."""
    first = trace.partition("\n")[0]
    if first.startswith("TimeoutError"):
        return first
    if first.startswith("Timeout"):
        return f"TimeoutError: {call.name.lower()} took longer than env.step_timeout, and let no other thread run"
    if first.startswith("Fatal Python error"):
        return f"ProcessDied: {first.removeprefix('Fatal Python error: ')}"
    if "OutOfMemory" in report or "memory monitor" in report:
        return "ProcessDied: out of memory: Ray ended the worker to save the host"
    return "ProcessDied: the process ended without a word: os._exit, a kill, or the host's out-of-memory killer"
