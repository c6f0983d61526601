"""Reading the journals that a process has left: what is damaged or missing is left out."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from muster.stepping.calls import Call
from muster.stepping.failures import SimulatorFailure
from muster.stepping.journal import (
    ACTION_SIZE,
    CALL,
    CALL_KINDS,
    DTYPE,
    FINISHED,
    FIXED,
    NUM_ENVS,
    PER_ENV,
    POSITION,
    TRACE_FILE,
    ActionRows,
    actions_in,
)

LARGEST_TEXT = 1024**2
_ROOM = str(Path(__file__).parent)
NO_TRACE = "the process exited without a traceback: os._exit, a kill, or the host's out-of-memory killer"
_DTYPES = "?bBhHiIlLqQefd"


@dataclass(frozen=True)
class LastCall:
    """What the journal of a group says after its process has ended.

    `actions` are those of the unfinished episode, or None if they are not known. If a batch was called, it is not
    known which of its simulators ended the process, so the seed is known only if all of them were about to begin.
    """

    group: int
    call: Call
    env: int | None
    episodes: list[int]
    seed: int | None
    finished: int
    actions: list[Any] | None

    def failure(self, cause: str, trace: str) -> SimulatorFailure:
        """Describe the call in which the process ended."""
        taken, first = len(self.actions or []), self.env or 0
        return SimulatorFailure(
            self.group,
            self.env,
            self.episodes[first],
            self.seed,
            max(0, taken - 1) if self.call is Call.STEP else taken,
            cause,
            _simulator_s_part(trace),
            self.call.word,
            self.group * len(self.episodes) + first,
            self.actions,
        )

    def failure_of_spare(self, cause: str, trace: str) -> SimulatorFailure:
        """Describe the same of a simulator beside those that are trained in."""
        return replace(self.failure(cause, trace), group=None, env=None, index=None)


def read_last_calls(folder: Path) -> list[LastCall]:
    """Read the journals of all groups that a process had; none if it came to no group, or its host is gone."""
    try:
        paths = sorted(folder.glob("*.calls"))
    except OSError:
        return []
    return [last for path in paths if (last := _read(path)) is not None]


def read_trace(folder: Path) -> str:
    """Return the Python stack that a process left when it was ended by a fault or a hang; may be empty."""
    path = folder / TRACE_FILE
    try:
        if not path.is_file():
            return ""
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(LARGEST_TEXT)
    except OSError:
        return ""


def cause_of_death(call: Call, trace: str, seen_from_outside: str) -> str:
    """Say what ended a process in the middle of a call: by the stack that it left, else as seen from outside."""
    first = trace.partition("\n")[0]
    if first.startswith("TimeoutError"):
        return first
    if first.startswith("Timeout"):
        return f"TimeoutError: {call.word} took longer than env.step_timeout, and let no other thread run"
    if first.startswith("Fatal Python error"):
        return f"ProcessDied: {first.removeprefix('Fatal Python error: ')}"
    return f"ProcessDied: {seen_from_outside}"


def _read(path: Path) -> LastCall | None:
    notes = _notes(path)
    if notes is None or not path.stem.isdecimal():
        return None
    num_envs = notes[NUM_ENVS]
    env, call = divmod(notes[CALL], CALL_KINDS)
    episodes, seeds = (notes[FIXED + k * num_envs : FIXED + (k + 1) * num_envs] for k in range(2))
    if call not in set(Call) or not 0 <= env <= num_envs or min(*episodes, *seeds) < 0:
        return None
    group, finished, has_acted = int(path.stem), notes[FINISHED], call in (Call.STEP, Call.CLOSE)
    if env < num_envs:
        actions = _actions(path, notes, env) if has_acted else []
        return LastCall(group, Call(call), env, episodes, seeds[env], finished, actions)
    starts = notes[FIXED + 2 * num_envs :]
    all_begin = not has_acted and all(start == notes[POSITION] for start in starts)
    seed, actions = (seeds[0], []) if all_begin else (None, None)
    return LastCall(group, Call(call), None, episodes, seed, finished, actions)


def _notes(path: Path) -> list[int] | None:
    """Return the numbers of a journal whose length fits the number of simulators that it names."""
    try:
        size = path.stat().st_size if path.is_file() else 0
        if size < 8 * FIXED:
            return None
        num_envs = int(np.fromfile(path, np.int64, FIXED)[NUM_ENVS])
        if num_envs < 1 or size != 8 * (FIXED + PER_ENV * num_envs):
            return None
        notes: list[int] = np.fromfile(path, np.int64).tolist()
        return notes
    except OSError:
        return None


def _actions(path: Path, notes: list[int], env: int) -> list[Any] | None:
    """Return the actions of a simulator's unfinished episode, as JSON holds them."""
    code, row = notes[DTYPE], (notes[NUM_ENVS], notes[ACTION_SIZE])
    if not 0 < code < 128 or chr(code) not in _DTYPES or row[1] < 1:
        return None
    log_path, space_path = path.with_suffix(".actions"), path.with_suffix(".space")
    try:
        if not log_path.is_file() or not space_path.is_file():
            return None
        log = np.fromfile(log_path, np.dtype(chr(code)))
        rows = actions_in(notes, log[: log.size - log.size % (row[0] * row[1])].reshape(-1, *row), env)
        return None if rows is None else ActionRows(**json.loads(space_path.read_text("utf-8"))).plain(rows)
    except (OSError, ValueError, TypeError, LookupError, MemoryError, OverflowError, RecursionError):
        return None


def _simulator_s_part(trace: str) -> str:
    """Return the stack of the thread that called the simulator, without muster's own frames."""
    blocks = [block for block in trace.split("\n\n") if "  File " in block]
    if not blocks:
        return trace
    lines = blocks[-1].splitlines()
    ours = next((k for k, line in enumerate(lines) if _ROOM in line), len(lines))
    return "\n".join(lines[:ours])
