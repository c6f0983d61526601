"""Journals are a help, never a condition: no room for them, or damage to them, ends nothing."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest

from muster.stepping import journal
from muster.stepping.calls import Call
from muster.stepping.journal import ActionRows, Journal, journal_folder
from muster.stepping.journal_reading import read_last_calls

SPACE = ActionRows({"kind": "discrete", "n": 4, "start": 10}, are_choices=True)


def _written(folder: Path) -> None:
    """Leave the journal of a group that ended in a step."""
    kept = Journal(folder / "0003", 2, 1, np.int64, SPACE)
    for env in range(2):
        kept.begins(env, 5 + env, 20 + env)
    for action in range(4):
        kept.acts(np.full((2, 1), action))
    kept.calls(Call.STEP, 1)


def test_a_journal_is_read_as_it_was_left(tmp_path: Path) -> None:
    _written(tmp_path)
    [last] = read_last_calls(tmp_path)
    assert (last.group, last.call, last.env, last.episodes, last.seed) == (3, Call.STEP, 1, [5, 6], 21)
    assert last.actions == [10, 11, 12, 13]
    failure = last.failure("ProcessDied", "")
    assert (failure.index, failure.step, failure.actions) == (7, 3, last.actions)


@pytest.mark.parametrize("in_the_middle", [False, True])
def test_the_seed_of_a_batch_is_known_only_if_all_of_it_begins(in_the_middle: bool, tmp_path: Path) -> None:
    kept = Journal(tmp_path / "0000", 2, 1, np.int64, SPACE)
    kept.begins(0, 0, 111)
    if in_the_middle:
        kept.acts(np.zeros((2, 1)))
    kept.begins(1, 1, 333)
    kept.calls(Call.RESET, None)
    [last] = read_last_calls(tmp_path)
    assert (last.env, last.seed, last.actions) == ((None, None, None) if in_the_middle else (None, 111, []))


@pytest.mark.parametrize("name", ["0003.calls", "0003.actions", "0003.space"])
@pytest.mark.parametrize("damage", ["empty", "zero", "short", "random", "missing", "folder", "fifo"])
def test_what_is_damaged_is_left_out(name: str, damage: str, tmp_path: Path) -> None:
    _written(tmp_path)
    path = tmp_path / name
    content = path.read_bytes()
    path.unlink()
    match damage:
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "empty":
            path.touch()
        case "zero":
            path.write_bytes(bytes(len(content)))
        case "short":
            path.write_bytes(content[: len(content) - 3])
        case "random":
            path.write_bytes(random.Random(0).randbytes(len(content)))
    for last in read_last_calls(tmp_path):
        assert name != "0003.calls"
        last.failure("ProcessDied", "")
        is_lost = name == "0003.space" or damage in ("empty", "missing", "folder", "fifo")
        assert (last.actions is None) == is_lost


def test_any_numbers_can_be_read(tmp_path: Path) -> None:
    """Damage single numbers: huge, negative, a wrong type."""
    rng = random.Random(0)
    for _ in range(300):
        _written(tmp_path)
        numbers = np.fromfile(tmp_path / "0003.calls", np.int64)
        numbers[rng.randrange(len(numbers))] = rng.choice([-1, 0, 1, 7, 2**31, 2**62, -(2**62), ord("O"), 1114112])
        numbers.tofile(tmp_path / "0003.calls")
        for last in read_last_calls(tmp_path):
            last.failure("ProcessDied", "")


def test_without_room_the_journal_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    full = Journal(tmp_path / "0000", 2, 1, np.int64)
    monkeypatch.setattr(journal, "_reserve", refuse)
    for kept in (Journal(tmp_path / "0001", 2, 1, np.int64), full):
        kept.begins(0, 1, 2)
        for action in range(1000):
            kept.acts(np.full((2, 1), action))
        kept.calls(Call.STEP, 0)
        rows = kept.actions(0)
        assert rows is not None and rows[:, 0].tolist() == list(range(1000))
    [last] = read_last_calls(tmp_path)
    assert (last.group, last.call, last.actions) == (0, Call.STEP, None)


def test_a_folder_that_cannot_be_made_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert journal_folder(tmp_path / "file") is None
    assert journal_folder(tmp_path / "new") == tmp_path / "new"
