"""What a group asks of its simulators, in files that outlive the process: which call is under way, and the
actions of every unfinished episode.

A simulator that hangs or ends its process leaves no exception behind. The files are mapped into memory, so a
note costs less than a microsecond, and the kernel keeps it whatever becomes of the process.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.engines.engine import SimulatorFailure

Array = NDArray[Any]

TRACE_FILE = "trace"
LARGEST_LOG_BYTES = 64 * 1024**2
FORGOTTEN = -1
UnderWay = tuple[str, int, int]
"""A call that is under way: its name, and what tells it from the call before."""

_CALL, _POSITION, _FINISHED, _NUM_ENVS, _ACTION_SIZE, _DTYPE, _HANDED_OVER, _IS_OPEN = range(8)
_FIXED = 8
_CALL_KINDS = 8


class Call(IntEnum):
    """What a simulator is asked."""

    NONE = 0
    BUILD = 1
    RESET = 2
    STEP = 3
    CLOSE = 4


def call_code(call: Call, env: int) -> int:
    """Return the number that says which simulator is asked what."""
    return env * _CALL_KINDS + call


class Journal:
    """The journal of one group; without a path it is kept in memory alone."""

    def __init__(self, path: Path | None, num_envs: int, action_size: int, dtype: Any) -> None:
        self._path = path
        self._shape = (num_envs, action_size)
        self._dtype = np.dtype(dtype)
        self._has_failures = False
        self._log: Array = self._new_log(256)
        size = 8 * (_FIXED + 2 * num_envs)
        self.notes = memoryview(_mapped(path and path.with_suffix(".calls"), size)).cast("q")
        """The first is the call under way, as `call_code` gives it."""
        self.notes[_NUM_ENVS], self.notes[_ACTION_SIZE] = num_envs, action_size
        self.notes[_DTYPE] = ord(self._dtype.char)
        self.notes[_IS_OPEN] = True

    def _new_log(self, capacity: int) -> Array:
        shape = (capacity, *self._shape)
        if self._path is None:
            return np.empty(shape, self._dtype)
        return np.memmap(self._path.with_suffix(".actions"), self._dtype, "w+", shape=shape).view(np.ndarray)

    @property
    def call(self) -> Call:
        """The call that is under way."""
        return Call(self.notes[_CALL] % _CALL_KINDS)

    def under_way(self) -> UnderWay | None:
        """Return the call that is under way, if any; may be asked by another thread."""
        code = self.notes[_CALL]
        return (Call(code % _CALL_KINDS).name.lower(), code, self.notes[_POSITION]) if code else None

    def calls(self, call: Call, env: int) -> None:
        """Note that a simulator is about to be asked something."""
        self.notes[_CALL] = env * _CALL_KINDS + call

    def rests(self) -> None:
        """Note that no simulator is asked anything."""
        self.notes[_CALL] = 0

    def begins(self, env: int, episode: int) -> None:
        """Note that an episode begins."""
        num_envs = self._shape[0]
        self.notes[_FIXED + env] = episode
        self.notes[_FIXED + num_envs + env] = self.notes[_POSITION]

    def finishes(self) -> None:
        """Note that an episode has come to its end."""
        self.notes[_FINISHED] += 1

    def acts(self, actions: Array) -> None:
        """Note the actions that all simulators are about to be given."""
        position = self.notes[_POSITION]
        if position == len(self._log):
            self._make_room()
            position = self.notes[_POSITION]
        self._log[position] = actions
        self.notes[_POSITION] = position + 1

    def actions(self, env: int) -> list[Any] | None:
        """Return the actions of a simulator's unfinished episode; None if it has forgotten the first of them."""
        return _actions_of(self.notes, self._log, env)

    def failed(self, failure: SimulatorFailure) -> None:
        """Keep a failure until the fragment that it belongs to has arrived."""
        if self._path is not None:
            self._has_failures = True
            with self._path.with_suffix(".failures").open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(failure)) + "\n")

    def opens(self) -> None:
        """Note that a fragment is begun; the failures of one that was handed over are known by now."""
        if self._has_failures and not self.notes[_IS_OPEN] and self._path is not None:
            self._path.with_suffix(".failures").unlink()
            self._has_failures = False
        self.notes[_IS_OPEN] = True

    def hands_over(self) -> None:
        """Note that a fragment is complete; it may still be lost on its way."""
        self.notes[_HANDED_OVER] += 1
        self.notes[_IS_OPEN] = False

    def state(self) -> tuple[list[int], Array]:
        """Return the unfinished episodes, to be saved with the simulators."""
        begun = self._first()
        notes = self.notes.tolist()
        starts = range(_FIXED + self._shape[0], len(notes))
        for k in starts:
            notes[k] = max(FORGOTTEN, notes[k] - begun)
        notes[_POSITION] -= begun
        return notes, np.array(self._log[begun : self.notes[_POSITION]])

    def restore(self, state: tuple[list[int], Array]) -> None:
        """Go on with saved episodes."""
        notes, log = state
        self._log = self._new_log(max(256, 2 * len(log)))
        self._log[: len(log)] = log
        for k, value in enumerate(notes):
            self.notes[k] = value
        self.notes[_HANDED_OVER], self.notes[_IS_OPEN] = 0, True
        self.rests()

    def _first(self) -> int:
        """Return where the oldest unfinished episode begins in the log."""
        starts = [start for start in self.notes[_FIXED + self._shape[0] :].tolist() if start != FORGOTTEN]
        return min(starts, default=self.notes[_POSITION])

    def _make_room(self) -> None:
        """Drop what belongs to no unfinished episode; if that is little, have a longer log, up to a limit."""
        capacity, first, num_envs = len(self._log), self._first(), self._shape[0]
        if first < capacity // 2:
            if 2 * self._log.nbytes <= LARGEST_LOG_BYTES:
                kept = np.array(self._log)
                self._log = self._new_log(2 * capacity)
                self._log[:capacity] = kept
                return
            first = capacity // 2
        self._log[: capacity - first] = self._log[first:].copy()
        for k in range(_FIXED + num_envs, len(self.notes)):
            start = self.notes[k]
            self.notes[k] = start - first if start >= first else FORGOTTEN
        self.notes[_POSITION] -= first


@dataclass(frozen=True)
class LastWords:
    """What the journal of a group says after its process has ended.

    `handed_over` counts its fragments; `failures` are those of the last of them, or of the one that `is_open`.
    """

    group: int
    call: Call
    env: int
    episodes: list[int]
    finished: int
    handed_over: int
    is_open: bool
    actions: list[Any] | None
    failures: list[SimulatorFailure]


def read_last_words(folder: Path) -> list[LastWords]:
    """Read the journals of all groups that a process had; none if it came to no group, or its host is gone."""
    return [_read(path) for path in sorted(folder.glob("*.calls")) if path.stat().st_size]


def read_trace(folder: Path) -> str:
    """Return the Python stack that a process left when it was ended by a fault or a hang; may be empty."""
    path = folder / TRACE_FILE
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def journal_path(folder: Path | None, group: int) -> Path | None:
    """Return where the journal of a group is, less the suffixes of its files."""
    return folder and folder / f"{group:04d}"


def _read(path: Path) -> LastWords:
    notes = np.fromfile(path, np.int64).tolist()
    num_envs = notes[_NUM_ENVS]
    env, call = divmod(notes[_CALL], _CALL_KINDS)
    log = np.fromfile(path.with_suffix(".actions"), np.dtype(chr(notes[_DTYPE])))
    log = log.reshape(-1, num_envs, notes[_ACTION_SIZE])
    failures = path.with_suffix(".failures")
    lines = failures.read_text(encoding="utf-8").splitlines() if failures.is_file() else []
    return LastWords(
        group=int(path.stem),
        call=Call(call),
        env=env,
        episodes=notes[_FIXED : _FIXED + num_envs],
        finished=notes[_FINISHED],
        handed_over=notes[_HANDED_OVER],
        is_open=bool(notes[_IS_OPEN]),
        actions=_actions_of(notes, log, env) if call in (Call.STEP, Call.CLOSE) else [],
        failures=[SimulatorFailure(**json.loads(line)) for line in lines],
    )


def _actions_of(notes: Sequence[int], log: Array, env: int) -> list[Any] | None:
    start = notes[_FIXED + log.shape[1] + env]
    if start == FORGOTTEN:
        return None
    rows: list[Any] = log[start : notes[_POSITION], env].tolist()
    return rows


def _mapped(path: Path | None, size: int) -> mmap.mmap:
    if path is None:
        return mmap.mmap(-1, size)
    with path.open("w+b") as file:
        file.truncate(size)
        return mmap.mmap(file.fileno(), size)
