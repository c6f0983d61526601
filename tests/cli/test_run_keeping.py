"""`muster runs`, `rm`, `prune`, `copy`: finding runs again, and removing what is not needed, nothing else."""

from __future__ import annotations

import json
import os
import shutil
import time
import tomllib
from pathlib import Path

import pytest

from muster.runs.lock import RunLock
from tests.commands import Ended, muster, muster_here
from tests.runs.tiny import train_tiny


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_tiny(tmp_path_factory.mktemp("kept"), "first", **{"checkpoint.every": 1, "algorithm.lr": 0.01})


@pytest.fixture
def runs(original: Path, tmp_path: Path) -> Path:
    """The folder of two runs, `first` and `second`, of which `second` failed with a lower return."""
    path = tmp_path / "runs"
    for name in ("first", "second"):
        shutil.copytree(original, path / name, symlinks=True)
    rewrite(path / "second", state="failed", return_mean=-1.0)
    return path


def rewrite(run: Path, **changes: object) -> None:
    status = json.loads((run / "status.json").read_text())
    (run / "status.json").write_text(json.dumps({**status, **changes}))


def age(folder: Path, days: float) -> None:
    """Make all of a folder as old as if nothing had been written for days."""
    then = time.time() - days * 86_400
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (then, then), follow_symlinks=False)


def names(done: Ended) -> list[str]:
    assert done.code == 0, done.err
    return [line.split()[0] for line in done.out.splitlines()[1:]]


def test_runs_are_chosen_and_sorted(runs: Path) -> None:
    here = ("--runs-dir", runs)
    assert names(muster_here("runs", "--sort", "return", *here)) == ["first", "second"]
    assert names(muster_here("runs", "--sort", "return", "--reverse", *here)) == ["second", "first"]
    assert names(muster_here("runs", "--state", "failed", *here)) == ["second"]
    assert names(muster_here("runs", "fir", *here)) == ["first"]
    assert names(muster_here("runs", "s*d", *here)) == ["second"]
    assert "no such runs in" in muster_here("runs", "third", *here).out
    assert muster_here("runs", "--sort", "size", *here).code == 2
    assert muster_here("runs", "--state", "happy", *here).code == 2


def test_runs_of_the_same_experiment_stand_together(runs: Path) -> None:
    done = muster_here("runs", "--group", "--runs-dir", runs)
    assert "PPO on CartPole-v1: 2 runs, mean return" in done.out
    text = (runs / "second/experiment.toml").read_text()
    (runs / "second/experiment.toml").write_text(text.replace("lr = 0.01", "lr = 0.02"))
    done = muster_here("runs", "--group", "--runs-dir", runs)
    assert "PPO on CartPole-v1, lr 0.02: 1 run, mean return -1" in done.out


def test_a_run_is_removed_after_a_question(runs: Path) -> None:
    refused = muster("rm", "first", "--runs-dir", runs, cwd=runs)
    assert refused.returncode != 0, "nobody has answered"
    assert (runs / "first").exists()
    done = muster_here("rm", "first", "second", "--yes", "--json", "--runs-dir", runs)
    assert json.loads(done.out)["removed"] == [str(runs / "first"), str(runs / "second")]
    assert not list(runs.iterdir())


def test_a_run_that_lives_is_not_removed(runs: Path) -> None:
    rewrite(runs / "first", state="running", updated=time.time(), host="here", pid=7)
    refused = muster_here("rm", "first", "--yes", "--runs-dir", runs)
    assert (refused.code, "is running on here (pid 7)" in refused.err) == (2, True)
    with RunLock(runs / "second/lock"):
        refused = muster_here("rm", "second", "--yes", "--runs-dir", runs)
    assert (refused.code, "another process writes to this run" in refused.err) == (1, True)
    assert muster_here("prune", "--older-than", "0s", "--yes", "--runs-dir", runs).code == 0
    assert len(list((runs / "first/checkpoints").glob("0*"))) == 2


def test_what_is_no_run_or_is_a_link_is_not_removed(runs: Path, tmp_path: Path) -> None:
    (runs / "notes").mkdir()
    (runs / "notes/thesis.tex").write_text("...")
    (runs / "link").symlink_to(runs / "first")
    for name, problem in (
        ("notes", "no run"),
        ("link", "is a link"),
        (str(runs), "is no run"),
        ("nosuch", "no run"),
    ):
        refused = muster_here("rm", name, "--yes", "--runs-dir", runs if name != str(runs) else tmp_path)
        assert (refused.code, problem in refused.err) == (2, True), refused.err
    assert (runs / "notes/thesis.tex").exists()
    assert (runs / "first").exists()


def test_links_in_a_run_are_not_followed(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/precious").write_text("...")
    (runs / "first/data").symlink_to(tmp_path / "data")
    assert muster_here("rm", "first", "--yes", "--runs-dir", runs).code == 0
    assert (tmp_path / "data/precious").exists()


def test_prune_removes_what_ended_runs_do_not_need(runs: Path) -> None:
    for name in ("first", "second"):
        age(runs / name, 10)
    (runs / "first/checkpoints/best").unlink(missing_ok=True)
    (runs / "first/checkpoints/best").symlink_to("00000002")
    empty = runs / "empty"
    empty.mkdir()
    for name in ("experiment.toml", "sources.json", "status.json"):
        shutil.copy2(runs / "first" / name, empty / name)
    age(empty, 10)
    for launch, record in (("over", "bring-up.jsonl"), ("on", "meeting")):
        (runs / "launches" / launch).mkdir(parents=True)
        (runs / "launches" / launch / record).write_text("{}\n")
    age(runs / "launches", 10)
    shown = muster_here("prune", "--dry-run", "--runs-dir", runs)
    assert "00000001" in shown.out
    assert (runs / "first/checkpoints/00000001").exists()
    done = muster_here("prune", "--yes", "--json", "--runs-dir", runs)
    gone = {str(Path(one["path"]).relative_to(runs)) for one in json.loads(done.out)["folders"]}
    assert gone >= {"first/checkpoints/00000001", "empty", "launches/over"}
    assert not any((runs / path).exists() for path in gone)
    assert {path.name for path in (runs / "first/checkpoints").iterdir()} == {"00000002", "best", "latest"}
    assert (runs / "launches/on").exists(), "it may run still"
    assert (runs / "second/checkpoints/latest/manifest.json").exists()


def test_prune_leaves_what_is_recent(runs: Path) -> None:
    assert "nothing to remove" in muster_here("prune", "--yes", "--runs-dir", runs).out


def test_a_copied_experiment_has_what_was_given_and_is_the_same(runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "exp.toml"
    done = muster_here("copy", "first", file, "--runs-dir", runs)
    assert done.code == 0, done.err
    table = tomllib.loads(file.read_text())
    assert table["algorithm"] == {"name": "PPO", "lr": 0.01, "train_batch_size": 64}
    assert "name" not in table
    again = muster_here("copy", "first", file, "--runs-dir", runs)
    assert (again.code, "exists already" in again.err) == (2, True)
    assert muster_here("copy", "first", tmp_path / "all.toml", "--all", "--runs-dir", runs).code == 0
    whole = tomllib.loads((tmp_path / "all.toml").read_text())
    saved = tomllib.loads((runs / "first/experiment.toml").read_text())
    assert whole == {key: value for key, value in saved.items() if key != "name"}
