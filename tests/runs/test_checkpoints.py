"""Checkpoints are whole or not there, and damage is noticed."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from muster.errors import CheckpointError, InputError, StorageError
from muster.runs.checkpoints import Checkpoints, verify


def save(checkpoints: Checkpoints, iteration: int, *, is_best: bool = False, keep: int = 2) -> Path:
    def write(folder: Path) -> None:
        (folder / "data").write_text(f"iteration {iteration}")

    return checkpoints.save(iteration, write, keep=keep, is_best=is_best)


def test_the_newest_and_the_best_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    for iteration in (10, 20, 30, 40):
        save(checkpoints, iteration, is_best=iteration == 10)
    names = {path.name for path in checkpoints.path.iterdir()}
    assert names == {"00000010", "00000030", "00000040", "latest", "best"}
    assert checkpoints.find("latest").name == "00000040"
    assert checkpoints.find("best").name == "00000010"
    assert checkpoints.find("30").name == "00000030"
    assert (checkpoints.path / "latest" / "data").read_text() == "iteration 40"
    with pytest.raises(InputError, match="there are: 00000010, 00000030, 00000040"):
        checkpoints.find("20")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_save_that_fails_leaves_what_was_there(tmp_path: Path, number: int) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    save(checkpoints, 10)

    def write(folder: Path) -> None:
        (folder / "data").write_text("half")
        raise OSError(number, "refused", str(folder / "data"))

    with pytest.raises(StorageError, match="checkpoints saved before are intact"):
        checkpoints.save(20, write, keep=2, is_best=True)
    assert {path.name for path in checkpoints.path.iterdir()} == {"00000010", "latest"}
    verify(checkpoints.find("latest"))


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    save(checkpoints, 10)
    (checkpoints.path / ".00000020.123").mkdir()
    (checkpoints.path / ".latest.123").symlink_to("nowhere")
    save(checkpoints, 20)
    assert {path.name for path in checkpoints.path.iterdir()} == {"00000010", "00000020", "latest"}


@pytest.mark.parametrize("harm", ["change", "remove", "manifest"])
def test_damage_is_named(tmp_path: Path, harm: str) -> None:
    path = save(Checkpoints(tmp_path / "checkpoints"), 10)
    verify(path)
    if harm == "change":
        (path / "data").write_text("iteration 11")
    elif harm == "remove":
        (path / "data").unlink()
    else:
        (path / "manifest.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"00000010/(data|manifest.json): damaged"):
        verify(path)
