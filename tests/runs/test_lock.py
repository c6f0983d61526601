"""The lock of a run: held by one writer, never written to by those who only look, never written through."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.errors import RunLockedError
from muster.runs.lock import RunLock, writers_kept_out
from tests.commands import muster_here
from tests.runs.tiny import made_run


def test_a_lock_that_is_a_link_is_never_written_through(tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("precious")
    lock = made_run(tmp_path / "runs/linked") / "lock"
    lock.unlink()
    lock.symlink_to(precious)
    with RunLock(lock):
        assert precious.read_text() == "precious"
    assert lock.with_name("lock.damaged").is_symlink()
    lock.unlink()
    lock.symlink_to(precious)
    assert muster_here("rm", "linked", "--yes", "--runs-dir", tmp_path / "runs").code == 0
    assert precious.read_text() == "precious"


def test_a_look_at_a_lock_writes_nothing(tmp_path: Path) -> None:
    lock = made_run(tmp_path / "run") / "lock"
    lock.write_text("as it was")
    with writers_kept_out(lock), pytest.raises(RunLockedError), RunLock(lock):
        pass
    assert lock.read_text() == "as it was"
    with RunLock(lock), pytest.raises(RunLockedError), writers_kept_out(lock):
        pass
