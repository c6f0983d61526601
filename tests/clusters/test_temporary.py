"""Temporary folders: nobody else can enter, replace or misuse them, and none is left behind."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from muster.clusters import temporary
from muster.clusters.temporary import RAY_FOLDER, temporary_folder
from muster.errors import ClusterError


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder for temporary files; its path may be long."""
    monkeypatch.setattr(temporary, "_LONGEST_PARENT", 1000)
    return tmp_path


def test_only_the_owner_can_enter_whatever_the_umask(place: Path) -> None:
    previous = os.umask(0)
    try:
        with temporary_folder(place) as folder:
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            assert (folder / RAY_FOLDER).is_dir()
    finally:
        os.umask(previous)
    assert not folder.exists()


def test_a_folder_that_others_can_change_is_not_used(place: Path) -> None:
    shared = place / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with temporary_folder(shared) as folder:
        assert folder.parent == Path("/tmp")
    shared.chmod(0o1777)
    with temporary_folder(shared) as folder:
        assert folder.parent == shared


def test_a_path_too_long_for_sockets_is_not_used(tmp_path: Path) -> None:
    assert len(str(tmp_path)) > 23
    with temporary_folder(tmp_path) as folder:
        assert folder.parent == Path("/tmp")
        assert (
            len(str(folder / RAY_FOLDER / "session_2026-11-17_23-40-15_123456_1234567/sockets/plasma_store"))
            <= 107
        )


def test_what_a_dead_owner_left_is_removed_and_what_others_planted_is_not(place: Path) -> None:
    abandoned = place / "muster-abandoned"
    abandoned.mkdir(mode=0o700)
    (abandoned / "owner").touch()
    precious = place / "precious"
    precious.mkdir(mode=0o700)
    (precious / "owner").touch()
    (place / "muster-link").symlink_to(precious)
    planted = place / "muster-planted"
    planted.mkdir()
    planted.chmod(0o777)
    (planted / "owner").symlink_to(precious / "owner")
    with temporary_folder(place):
        assert not abandoned.exists()
        assert precious.exists()
        assert planted.exists()


def test_where_none_can_be_made_the_error_names_the_place(place: Path) -> None:
    nowhere = Path("/proc/self/fdinfo")
    with (
        pytest.raises(ClusterError, match="fdinfo: no temporary folder can be made there"),
        temporary_folder(nowhere),
    ):
        pass
