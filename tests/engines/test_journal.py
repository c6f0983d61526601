"""Journals are a help, never a condition: no room for them, or damage to them, ends nothing."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest

from muster.engines import journal
from muster.engines.engine import SimulatorFailure
from muster.engines.failing import failure_from
from muster.engines.journal import Call, Journal, journal_folder
from muster.engines.journal_reading import read_last_words

FAILURE = SimulatorFailure(0, 1, 7, 11, 3, "ValueError: no", "Traceback")


def _written(folder: Path) -> None:
    """Leave the journal of a group that ended in a step."""
    kept = Journal(folder / "0003", 2, 1, np.int64)
    for env in range(2):
        kept.begins(env, 5 + env)
    for action in range(4):
        kept.acts(np.full((2, 1), action))
    kept.failed(FAILURE)
    kept.calls(Call.STEP, 1)


def test_a_journal_is_read_as_it_was_left(tmp_path: Path) -> None:
    _written(tmp_path)
    [said] = read_last_words(tmp_path)
    assert (said.group, said.call, said.env, said.episodes) == (3, Call.STEP, 1, [5, 6])
    assert said.actions == [[0], [1], [2], [3]]
    assert said.failures == [FAILURE]


@pytest.mark.parametrize("name", ["0003.calls", "0003.actions", "0003.failures"])
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
    for said in read_last_words(tmp_path):
        assert name != "0003.calls"
        failure_from(said, 0, "ProcessDied", "")
        assert said.failures == ([] if name == "0003.failures" else [FAILURE])
        assert (said.actions is None) == (
            name == "0003.actions" and damage in ("empty", "missing", "folder", "fifo")
        )


def test_any_numbers_can_be_read(tmp_path: Path) -> None:
    """Damage single numbers: huge, negative, a wrong type."""
    rng = random.Random(0)
    for _ in range(300):
        _written(tmp_path)
        numbers = np.fromfile(tmp_path / "0003.calls", np.int64)
        numbers[rng.randrange(len(numbers))] = rng.choice([-1, 0, 1, 7, 2**31, 2**62, -(2**62), ord("O"), 1114112])
        numbers.tofile(tmp_path / "0003.calls")
        for said in read_last_words(tmp_path):
            failure_from(said, 0, "ProcessDied", "")


def test_failures_that_are_no_failures_are_left_out(tmp_path: Path) -> None:
    _written(tmp_path)
    with (tmp_path / "0003.failures").open("a") as file:
        file.write('{"group": 1}\n[]\n"text"\nnot JSON\n')
        file.write('{"group": 1, "env": 0, "episode": 1, "seed": 1, "step": 1, "error": 5, "traceback": null}\n')
    [said] = read_last_words(tmp_path)
    assert said.failures == [FAILURE]


def test_without_room_the_journal_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    full = Journal(tmp_path / "0000", 2, 1, np.int64)
    monkeypatch.setattr(journal, "_reserve", refuse)
    for kept in (Journal(tmp_path / "0001", 2, 1, np.int64), full):
        kept.begins(0, 1)
        for action in range(1000):
            kept.acts(np.full((2, 1), action))
        kept.failed(FAILURE)
        kept.calls(Call.STEP, 0)
        assert kept.actions(0) == [[action] for action in range(1000)]
    [said] = read_last_words(tmp_path)
    assert (said.group, said.call, said.actions) == (0, Call.STEP, None)


def test_a_folder_that_cannot_be_made_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert journal_folder(tmp_path / "file") is None
    assert journal_folder(tmp_path / "new") == tmp_path / "new"
