"""Reading the journals that a process has left: what is damaged or missing is left out."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from muster.engines.engine import SimulatorFailure
from muster.engines.journal import (
    ACTION_SIZE,
    CALL,
    CALL_KINDS,
    DTYPE,
    FINISHED,
    FIXED,
    HANDED_OVER,
    IS_OPEN,
    NUM_ENVS,
    TRACE_FILE,
    Call,
    actions_in,
)

LARGEST_TEXT = 1024**2
_DTYPES = "?bBhHiIlLqQefd"


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
    try:
        paths = sorted(folder.glob("*.calls"))
    except OSError:
        return []
    return [said for path in paths if (said := _read(path)) is not None]


def read_trace(folder: Path) -> str:
    """Return the Python stack that a process left when it was ended by a fault or a hang; may be empty."""
    return _text(folder / TRACE_FILE)


def _read(path: Path) -> LastWords | None:
    notes = _notes(path)
    if notes is None or not path.stem.isdecimal():
        return None
    num_envs = notes[NUM_ENVS]
    env, call = divmod(notes[CALL], CALL_KINDS)
    episodes = notes[FIXED : FIXED + num_envs]
    if call not in set(Call) or not 0 <= env < num_envs or min(episodes) < 0:
        return None
    return LastWords(
        group=int(path.stem),
        call=Call(call),
        env=env,
        episodes=episodes,
        finished=notes[FINISHED],
        handed_over=notes[HANDED_OVER],
        is_open=bool(notes[IS_OPEN]),
        actions=_actions(path.with_suffix(".actions"), notes, env) if call in (Call.STEP, Call.CLOSE) else [],
        failures=_failures(path.with_suffix(".failures")),
    )


def _notes(path: Path) -> list[int] | None:
    """Return the numbers of a journal whose length fits the number of simulators that it tells."""
    try:
        size = path.stat().st_size if path.is_file() else 0
        if size < 8 * FIXED:
            return None
        num_envs = int(np.fromfile(path, np.int64, FIXED)[NUM_ENVS])
        if num_envs < 1 or size != 8 * (FIXED + 2 * num_envs):
            return None
        notes: list[int] = np.fromfile(path, np.int64).tolist()
        return notes
    except OSError:
        return None


def _actions(path: Path, notes: list[int], env: int) -> list[Any] | None:
    code, row = notes[DTYPE], (notes[NUM_ENVS], notes[ACTION_SIZE])
    if not 0 < code < 128 or chr(code) not in _DTYPES or row[1] < 1:
        return None
    try:
        if not path.is_file():
            return None
        log = np.fromfile(path, np.dtype(chr(code)))
        return actions_in(notes, log[: log.size - log.size % (row[0] * row[1])].reshape(-1, *row), env)
    except (OSError, ValueError, MemoryError):
        return None


def _failures(path: Path) -> list[SimulatorFailure]:
    found = []
    for line in _text(path).splitlines():
        try:
            values = json.loads(line)
            failure = SimulatorFailure(**values)
        except (ValueError, TypeError, RecursionError):
            continue
        if all(_fits(getattr(failure, field.name), str(field.type)) for field in fields(failure)):
            found.append(failure)
    return found


def _fits(value: Any, annotation: str) -> bool:
    """Whether a value read from JSON is of the type that a failure's field has."""
    if value is None:
        return "None" in annotation
    kind = {"int": int, "str": str, "list": list}[annotation.partition("[")[0].partition(" ")[0]]
    return isinstance(value, kind) and not isinstance(value, bool)


def _text(path: Path) -> str:
    try:
        if not path.is_file():
            return ""
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(LARGEST_TEXT)
    except OSError:
        return ""
