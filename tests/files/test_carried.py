"""Files that hold a class by value: loading one runs its code, so only what was written is loaded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.files.carried import load_carried, name_of


class Tank:
    """Stands for a class of a notebook."""


def carried(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(Tank, "__module__", "__main__")
    name, _ = name_of(Tank, folder, "a class")
    return Path(name.rpartition(":")[0])


def test_a_class_is_written_and_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_carried(carried(tmp_path, monkeypatch)).__name__ == "Tank"


def test_what_somebody_put_in_its_place_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = carried(tmp_path / "shared", monkeypatch)
    other = path.with_name("Other.simulator")
    path.rename(other)
    path.write_bytes(other.read_bytes() + b".")
    for file in (path, other):
        with pytest.raises(ValueError, match="is not what was written"):
            load_carried(file)


def test_the_folder_is_its_owner_s_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.umask(0o002)
    try:
        path = carried(tmp_path / "runs", monkeypatch)
    finally:
        os.umask(before)
    assert (path.parent.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o755, 0o600)
