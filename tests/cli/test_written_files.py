"""Files that commands write: as a whole or not at all, and never through somebody else's link."""

from __future__ import annotations

import os
import resource
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from muster.runs.files import write_text
from tests.commands import muster_here
from tests.runs.tiny import made_run


@contextmanager
def full_disk() -> Iterator[None]:
    """Let no file grow, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for name in ("one", "other"):
        made_run(tmp_path / "runs" / name)
    return tmp_path / "runs"


@pytest.mark.parametrize("command", [["compare", "one", "other"], ["plot", "one"]], ids=["compare", "plot"])
@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_a_picture_without_room_leaves_the_one_before(runs: Path, command: list[str], suffix: str) -> None:
    picture = runs / f"picture.{suffix}"
    picture.write_text("the one before")
    with full_disk():
        failed = muster_here(*command, "-o", picture, "--runs-dir", runs)
    assert (failed.code, "cannot be written: File too large" in failed.err) == (1, True)
    assert picture.read_text() == "the one before"
    assert muster_here(*command, "-o", picture, "--runs-dir", runs).code == 0
    assert picture.stat().st_size > 1000
    assert {path.name for path in runs.iterdir()} == {"one", "other", picture.name}


def test_a_copy_that_cannot_be_written_leaves_nothing(runs: Path) -> None:
    copy = ["copy", "one", str(runs / "exp.toml"), "--runs-dir", str(runs)]
    with full_disk():
        failed = muster_here(*copy)
    assert (failed.code, "cannot be written: File too large" in failed.err) == (2, True)
    assert muster_here(*copy).code == 0


@pytest.mark.parametrize("name", ['x\n[env]\nid = "Evil-v0"\n#', os.fsdecode(b"run-\xff")])
def test_the_name_of_a_copied_run_stays_in_its_comment(runs: Path, name: str) -> None:
    (runs / "one").rename(runs / name)
    done = muster_here("copy", runs / name, runs / "exp.toml")
    assert done.code == 0, done.err
    assert tomllib.loads((runs / "exp.toml").read_text())["env"]["id"] == "CartPole-v1"


def test_a_file_is_not_written_through_a_link_that_waits_beside_it(tmp_path: Path) -> None:
    precious, beside = tmp_path / "precious", tmp_path / f".report.html.{os.getpid()}"
    precious.write_text("precious")
    beside.symlink_to(precious)
    write_text(tmp_path / "report.html", "report")
    assert precious.read_text() == "precious"
    beside.write_text("what a killed process left")
    write_text(tmp_path / "report.html", "report again")
    assert (tmp_path / "report.html").read_text() == "report again"
    assert not beside.exists()


def test_a_run_can_be_removed_from_a_full_disk(runs: Path) -> None:
    with full_disk():
        done = muster_here("rm", "one", "--yes", "--runs-dir", runs)
    assert done.code == 0, done.err
    assert not (runs / "one").exists()
