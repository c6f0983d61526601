"""Resuming a run by its name, by its folder and by its file, on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import last_json, muster

QUICK = ["--workers", "0", "--set", "algorithm.train_batch_size=256"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs: `first`, and `house` of two seeds."""
    path = tmp_path_factory.mktemp("user")
    done = muster("train", "CartPole-v1", *QUICK, "--name", "first", "--stop-iterations", "2", cwd=path)
    assert done.returncode == 0, done.stderr
    seeds = ["--seeds", "2", "--name", "house", "--stop-iterations", "1"]
    assert muster("train", "CartPole-v1", *QUICK, *seeds, cwd=path).returncode == 0
    return path


def test_a_run_is_resumed_by_name_or_folder(folder: Path) -> None:
    by_name = muster("resume", "first", "--stop-iterations", "3", "--json", cwd=folder)
    assert by_name.returncode == 0, by_name.stderr
    assert (last_json(by_name)["iterations"], last_json(by_name)["run"]) == (3, "runs/first")
    by_folder = muster("resume", folder / "runs/first", "--stop-iterations", "4", "--json", cwd=folder.parent)
    assert last_json(by_folder)["iterations"] == 4
    trained = muster("train", "first", "--resume", "--stop-iterations", "5", "--json", cwd=folder)
    assert last_json(trained)["iterations"] == 5, trained.stderr
    one = muster("resume", "house/seed-1", "--stop-iterations", "2", "--json", cwd=folder)
    assert (last_json(one)["run"], last_json(one)["iterations"]) == ("runs/house/seed-1", 2)
    assert sorted(path.name for path in (folder / "runs").iterdir()) == ["first", "house"]


def test_a_change_that_makes_it_another_run_is_refused(folder: Path) -> None:
    done = muster("resume", "first", "--set", "algorithm.lr=0.1", cwd=folder)
    assert done.returncode == 2
    assert "algorithm.lr (--set algorithm.lr): is 0.1, but the run to resume has" in done.stderr


def test_what_is_no_single_run_says_what_to_do(folder: Path) -> None:
    several = muster("resume", "house", cwd=folder)
    assert several.returncode == 2
    assert "holds 2 runs, one for each seed" in several.stderr
    assert "muster resume runs/house/seed-0" in several.stderr
    unknown = muster("resume", "frist", cwd=folder)
    assert (unknown.returncode, "no run 'frist' in runs" in unknown.stderr) == (2, True)


def test_a_section_without_keys_is_no_change(folder: Path) -> None:
    assert muster("init", "CartPole-v1", "-o", "cart.toml", cwd=folder).returncode == 0
    assert "\n[stop]" in (folder / "cart.toml").read_text()
    flags = [*QUICK, "--name", "file"]
    begun = muster("train", "cart.toml", *flags, "--stop-iterations", "1", cwd=folder)
    assert begun.returncode == 0, begun.stderr
    resumed = muster("train", "cart.toml", "--name", "file", "--resume", "--json", cwd=folder)
    assert resumed.returncode == 0, resumed.stderr
    assert last_json(resumed)["iterations"] == 1


def test_a_run_that_is_to_be_trained_is_pointed_to_resume(folder: Path) -> None:
    done = muster("train", "first", cwd=folder)
    assert done.returncode == 2
    assert "first: is a run, not an experiment file or simulator\n    muster resume first" in done.stderr
