"""What a group asks of its simulators, in files that outlive the process: which call is under way, and the
actions of every unfinished episode.

A simulator that hangs or ends its process leaves no exception behind. The files are mapped into memory, so a
note costs less than a microsecond, and the kernel keeps it whatever becomes of the process. They are a help,
never a condition: where there is no room for them, the notes are in memory alone.
"""

from __future__ import annotations

import errno
import json
import math
import mmap
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.simulators.decoding import ActionDecoder
from muster.simulators.describing import Description
from muster.simulators.plain_actions import plain, plain_of_row
from muster.stepping.calls import Call, UnderWay

Array = NDArray[Any]

TRACE_FILE = "trace"
LARGEST_LOG_BYTES = 64 * 1024**2
FORGOTTEN = -1
CALL, POSITION, FINISHED, NUM_ENVS, ACTION_SIZE, DTYPE = range(6)
FIXED = 6
PER_ENV = 3
"""Episode, its seed, and where its actions begin in the log: first of all simulators, then the next."""
CALL_KINDS = 8


def call_code(call: Call, env: int) -> int:
    """Return the number that says which simulator is asked what; the one after the last stands for all."""
    return env * CALL_KINDS + call


@dataclass(frozen=True)
class ActionRows:
    """What the rows of a journal stand for: actions of a space, or a policy's choices that are decoded to them."""

    description: Description
    are_choices: bool

    def plain(self, rows: Array) -> list[Any]:
        """Return the actions as JSON holds them."""
        if not len(rows):
            return []
        if self.are_choices:
            return [plain(action) for action in ActionDecoder(self.description).decode(rows)]
        return [plain_of_row(self.description, row) for row in rows]


class Journal:
    """The journal of one group; without a path it is kept in memory alone."""

    def __init__(
        self, path: Path | None, num_envs: int, action_size: int, dtype: Any, space: ActionRows | None = None
    ) -> None:
        self._num_envs, self._shape = num_envs, (num_envs, action_size)
        self._dtype = np.dtype(dtype)
        self._num_calls = 0
        size = 8 * (FIXED + PER_ENV * num_envs)
        mapped = path and _mapped(path.with_suffix(".calls"), size)
        self._path = path if mapped else None
        self.notes = memoryview(mapped or mmap.mmap(-1, size)).cast("q")
        """The first is the call under way, as `call_code` gives it."""
        self._log: Array = self._new_log(256)
        self.notes[NUM_ENVS], self.notes[ACTION_SIZE] = num_envs, action_size
        self.notes[DTYPE] = ord(self._dtype.char)
        if self._path is not None and space is not None:
            with suppress(OSError):
                self._path.with_suffix(".space").write_text(json.dumps(asdict(space)), encoding="utf-8")

    def _new_log(self, capacity: int) -> Array:
        """Return room for actions: in a file, or in memory if there is no room for the file."""
        shape = (capacity, *self._shape)
        size = math.prod(shape) * self._dtype.itemsize
        mapped = _mapped(self._path.with_suffix(".actions"), size) if self._path and size else None
        if mapped is None:
            return np.empty(shape, self._dtype)
        return np.frombuffer(mapped, self._dtype).reshape(shape)

    @property
    def call(self) -> Call:
        """The call that is under way."""
        return Call(self.notes[CALL] % CALL_KINDS)

    def under_way(self) -> UnderWay | None:
        """Return the call that is under way, if any; may be asked by another thread."""
        code = self.notes[CALL]
        if not code:
            return None
        return Call(code % CALL_KINDS), (id(self), code, self.notes[POSITION], self._num_calls)

    def calls(self, call: Call, env: int | None) -> None:
        """Note that a simulator is about to be asked something; None: all of them, as a batch."""
        self._num_calls += 1
        self.notes[CALL] = call_code(call, self._shape[0] if env is None else env)

    def rests(self) -> None:
        """Note that no simulator is asked anything."""
        self.notes[CALL] = 0

    def begins(self, env: int, episode: int, seed: int) -> None:
        """Note that an episode begins."""
        notes, k, num_envs = self.notes, FIXED + env, self._num_envs
        notes[k] = episode
        notes[k + num_envs] = seed
        notes[k + 2 * num_envs] = notes[POSITION]

    def finishes(self) -> None:
        """Note that an episode has ended."""
        self.notes[FINISHED] += 1

    def acts(self, actions: Array) -> None:
        """Note the actions that all simulators are about to be given."""
        position = self.notes[POSITION]
        if position == len(self._log):
            self._make_room()
            position = self.notes[POSITION]
        self._log[position] = actions
        self.notes[POSITION] = position + 1

    def actions(self, env: int) -> Array | None:
        """Return the rows of a simulator's unfinished episode; None if it has forgotten the first of them."""
        return actions_in(self.notes, self._log, env)

    def state(self) -> tuple[list[int], Array]:
        """Return the unfinished episodes, to be saved with the simulators."""
        begun = self._first()
        notes = self.notes.tolist()
        starts = range(FIXED + 2 * self._shape[0], len(notes))
        for k in starts:
            notes[k] = max(FORGOTTEN, notes[k] - begun)
        notes[POSITION] -= begun
        return notes, np.array(self._log[begun : self.notes[POSITION]])

    def restore(self, state: tuple[list[int], Array]) -> None:
        """Continue saved episodes."""
        notes, log = state
        self._log = self._new_log(max(256, 2 * len(log)))
        self._log[: len(log)] = log
        for k, value in enumerate(notes):
            self.notes[k] = value
        self.rests()

    def _first(self) -> int:
        """Return where the oldest unfinished episode begins in the log."""
        starts = [start for start in self.notes[FIXED + 2 * self._shape[0] :].tolist() if start != FORGOTTEN]
        return min(starts, default=self.notes[POSITION])

    def _make_room(self) -> None:
        """Drop what belongs to no unfinished episode; if that is little, have a longer log, up to a limit."""
        capacity, first, num_envs = len(self._log), self._first(), self._shape[0]
        if first < capacity // 2:
            if 2 * self._log.nbytes <= LARGEST_LOG_BYTES:
                kept = self._log = np.array(self._log)
                self._log = self._new_log(2 * capacity)
                self._log[:capacity] = kept
                return
            first = capacity // 2
        self._log[: capacity - first] = self._log[first:].copy()
        for k in range(FIXED + 2 * num_envs, len(self.notes)):
            start = self.notes[k]
            self.notes[k] = start - first if start >= first else FORGOTTEN
        self.notes[POSITION] -= first


def journal_path(folder: Path | None, group: int) -> Path | None:
    """Return where the journal of a group is, less the suffixes of its files."""
    return folder and folder / f"{group:04d}"


def journal_folder(path: Path) -> Path | None:
    """Make a folder for journals; return None, for journals in memory, if that cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return path


def actions_in(notes: Sequence[int], log: Array, env: int) -> Array | None:
    """Return the rows of a simulator's unfinished episode; None if the first of them are not there."""
    start, end = notes[FIXED + 2 * log.shape[1] + env], notes[POSITION]
    return log[start:end, env].copy() if 0 <= start <= end <= len(log) else None


def _mapped(path: Path, size: int) -> mmap.mmap | None:
    """Make a file of some size and map it; None if there is no room for it.

    Without room, writing to a mapped file ends the process, so all of it is reserved first.
    """
    try:
        path.unlink(missing_ok=True)
        with path.open("x+b") as file:
            _reserve(file.fileno(), size)
            return mmap.mmap(file.fileno(), size)
    except OSError:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return None


def _reserve(descriptor: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    elif os.write(descriptor, bytes(size)) < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
