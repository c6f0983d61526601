"""The copy of a project that a job runs from."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from muster.errors import InputError
from muster.jobs import snapshot
from muster.jobs.snapshot import copy, find_project


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True)


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def repository(project: Path) -> Path:
    (project / ".gitignore").write_text("*.dat\n")
    (project / "package").mkdir()
    (project / "package" / "model.py").write_text("x = 1\n")
    git(project, "init", "-q")
    git(project, "add", ".")
    git(project, "commit", "-qm", "first")
    return project


def test_what_git_tracks_or_would_track_is_copied_with_its_changes(repository: Path, tmp_path: Path) -> None:
    (repository / "sim.py").write_text("changed = True\n")
    (repository / "new file.py").write_text("")
    (repository / "data.dat").write_text("not code")
    (repository / "runs").mkdir()
    (repository / "runs" / "old.py").write_text("")
    found = find_project(repository / "package", repository / "runs")
    copy(found, tmp_path / "code")
    expected = {".gitignore", "exp.toml", "sim.py", "new file.py", "package/model.py"}
    assert names(tmp_path / "code") == expected
    assert (tmp_path / "code" / "sim.py").read_text() == "changed = True\n"
    assert found.commit is not None
    assert found.commit.endswith("-dirty")
    assert "+changed = True" in found.changes


def test_without_a_repository_the_folder_is_copied_less_what_gitignore_names(
    project: Path, tmp_path: Path
) -> None:
    (project / ".gitignore").write_text("*.dat\n")
    (project / "big.dat").write_text("")
    (project / "env").mkdir()
    (project / "env" / "pyvenv.cfg").write_text("")
    (project / "env" / "lib.py").write_text("")
    (project / "__pycache__").mkdir()
    (project / "__pycache__" / "sim.pyc").write_text("")
    copy(find_project(project, project / "runs"), tmp_path / "code")
    assert names(tmp_path / "code") == {".gitignore", "exp.toml", "sim.py"}


def test_where_git_is_not_installed_environments_and_caches_are_left_out(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (project / "__pycache__").mkdir()
    (project / "__pycache__" / "sim.pyc").write_text("")
    assert {str(path) for path in find_project(project, project / "runs").files} == {"exp.toml", "sim.py"}


def test_a_project_that_is_too_large_is_refused_with_its_largest_files(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "weights.bin").write_bytes(bytes(3 * 1024**2))
    monkeypatch.setattr(snapshot, "LARGEST_BYTES", 1024**2)
    with pytest.raises(
        InputError, match=r"3 MiB, more than the 1 MiB(?s:.*)3\.0 MiB  weights\.bin(?s:.*)--no-snapshot"
    ):
        find_project(project, project / "runs")
