"""The copy of a project that a job runs from."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from muster.errors import InputError
from muster.jobs import snapshot
from muster.jobs.snapshot import copy, find_project
from tests.commands import muster_here


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


def test_a_simulator_that_git_ignores_is_refused_before_anything_is_sent(repository: Path) -> None:
    (repository / "hidden.dat.py").write_text((repository / "sim.py").read_text())
    (repository / ".gitignore").write_text("hidden*\n")
    (repository / "exp.toml").write_text('[env]\nid = "hidden.dat.py:Sim"\n')
    done = muster_here("submit", "exp.toml", "--on", "slurm", "--dry-run")
    assert done.code == 2
    assert "hidden.dat.py: is not copied with the project" in done.err
    assert muster_here("submit", "exp.toml", "--on", "slurm", "--dry-run", "--no-snapshot").code == 0


def test_a_submodule_that_was_not_fetched_is_left_out(repository: Path, tmp_path: Path) -> None:
    git(repository, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(repository), "inner")
    git(repository, "commit", "-qm", "inner")
    git(tmp_path, "clone", "-q", str(repository), "clone")
    files = {str(path) for path in find_project(tmp_path / "clone", tmp_path / "runs").files}
    assert files == {".gitignore", ".gitmodules", "exp.toml", "sim.py", "package/model.py"}


def test_changes_in_another_encoding_are_recorded_all_the_same(repository: Path) -> None:
    (repository / "sim.py").write_bytes(b"name = 'caf\xe9'\n")
    assert "caf\ufffd" in find_project(repository, repository / "runs").changes


def test_a_link_to_a_folder_of_the_project_leads_into_the_copy(repository: Path, tmp_path: Path) -> None:
    (repository / "models").symlink_to("package")
    copy(find_project(repository, repository / "runs"), tmp_path / "code")
    assert (tmp_path / "code" / "models").resolve() == tmp_path / "code" / "package"


def test_files_that_vanish_are_left_out_and_those_that_may_not_be_read_are_named(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = find_project(repository, repository / "runs")

    def refused(source: Path, copied: Path) -> None:
        raise PermissionError(13, "Permission denied", str(source))

    def vanishing(source: Path, copied: Path) -> None:
        source.unlink()
        raise FileNotFoundError(2, "No such file", str(source))

    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(shutil, "copy2", refused)
    with pytest.raises(InputError, match="cannot be copied: Permission denied"):
        copy(found, tmp_path / "code")
    monkeypatch.setattr(shutil, "copy2", vanishing)
    copy(found, tmp_path / "code")


def test_files_that_git_takes_too_long_to_list_are_no_empty_project(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = snapshot._git
    monkeypatch.setattr(
        snapshot, "_git", lambda folder, *words, **env: None if "ls-files" in words else listed(folder, *words)
    )
    with pytest.raises(InputError, match="git did not list its files"):
        find_project(repository, repository / "runs")


def test_a_home_folder_is_no_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(project))
    with pytest.raises(InputError, match="put the experiment and its simulator into a folder of their own"):
        find_project(project, project / "runs")
