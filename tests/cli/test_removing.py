"""`muster rm` and `muster prune` remove what they say, and nothing else, whatever is in the runs folder."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from muster.runs.lock import RunLock
from tests.commands import Ended, muster_here
from tests.runs.tiny import made_run

UNPRIVILEGED = 12345


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def rm(runs: Path, *names: str | Path) -> Ended:
    return muster_here("rm", *names, "--yes", "--runs-dir", runs)


def prune(runs: Path, *flags: str) -> Ended:
    return muster_here("prune", "--older-than", "0s", "--yes", "--runs-dir", runs, *flags)


def answer(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """Answer yes to the question, after something else has happened."""
    monkeypatch.setattr(typer, "confirm", lambda *_, **__: meanwhile())


def test_prune_follows_no_link_below_the_runs_folder(runs: Path, tmp_path: Path) -> None:
    elsewhere = made_run(tmp_path / "elsewhere", 3)
    made_run(tmp_path / "group/seed-0", 3)
    ended = tmp_path / "launches/over/bring-up.jsonl"
    ended.parent.mkdir(parents=True)
    ended.touch()
    linking = made_run(runs / "linking", 0)
    (linking / "checkpoints").rmdir()
    for link, target in (
        (linking / "checkpoints", elsewhere / "checkpoints"),
        (runs / "group", tmp_path / "group"),
        (runs / "launches", tmp_path / "launches"),
    ):
        link.symlink_to(target)
    done = prune(runs)
    assert (done.code, done.out) == (0, "nothing to remove\n")
    assert ended.exists()
    for kept in (elsewhere, tmp_path / "group/seed-0"):
        assert len(list(kept.glob("checkpoints/0*"))) == 3


def test_the_name_of_a_run_does_not_mean_a_folder_beside_the_runs(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "tank"
    project.mkdir()
    (project / "sweep.toml").write_text('[env]\nid = "CartPole-v1"\n')
    (project / "sim.py").write_text("code")
    monkeypatch.chdir(tmp_path)
    refused = rm(runs, "tank")
    assert (refused.code, "is no run" in refused.err) == (2, True)
    made_run(runs / "tank")
    assert rm(runs, "tank").code == 0
    assert (project / "sim.py").exists()
    assert not (runs / "tank").exists()


def test_a_sweep_is_removed_if_its_record_or_its_trials_are_there(runs: Path) -> None:
    made_run(runs / "trials/trial-001")
    (runs / "record").mkdir()
    (runs / "record/sweep.json").write_text(json.dumps({"metric": "return/mean", "mode": "max", "trials": []}))
    assert rm(runs, "trials", "record").code == 0
    assert not list(runs.iterdir())


def test_a_run_that_was_resumed_before_the_answer_is_kept(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = made_run(runs / "run", 3)

    def resume() -> None:
        living = {"state": "running", "host": "here", "pid": 7, "updated": time.time()}
        (run / "status.json").write_text(json.dumps(living))

    answer(monkeypatch, resume)
    for command in (["rm", "run"], ["prune", "--older-than", "0s"]):
        (run / "status.json").write_text('{"state": "finished"}')
        refused = muster_here(*command, "--runs-dir", runs)
        assert refused.code != 0
        assert "is running on here (pid 7)" in refused.err
        assert len(list(run.glob("checkpoints/0*"))) == 3


def test_a_run_is_locked_while_it_is_removed(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = made_run(runs / "run")
    locks: list[RunLock] = []

    def resume() -> None:
        locks.append(RunLock(run / "lock").__enter__())

    answer(monkeypatch, resume)
    refused = muster_here("rm", "run", "--runs-dir", runs)
    assert (refused.code, "another process writes to this run" in refused.err) == (1, True)
    locks[0].__exit__(None, None, None)


def test_what_is_no_run_of_muster_s_is_left_alone(runs: Path) -> None:
    for step in (1, 2, 3):
        (runs / f"lightning/checkpoints/2024010{step}").mkdir(parents=True)
        (runs / f"lightning/checkpoints/2024010{step}/model.pt").touch()
    foreign = made_run(runs / "mixed") / "checkpoints/00000000"
    foreign.mkdir()
    (runs / "proj").mkdir()
    for name in ("lock", "metrics.csv", "thesis.tex"):
        (runs / "proj" / name).touch()
    (runs / "seeds/seed-0").mkdir(parents=True)
    for name in ("lock", "metrics.csv"):
        (runs / "seeds/seed-0" / name).touch()
    done = prune(runs, "--json")
    gone = [Path(one["path"]).name for one in json.loads(done.out)["folders"]]
    assert (done.code, gone) == (0, ["00000001"]), done.err
    assert foreign.exists()
    for name in ("lightning", "proj", "seeds"):
        refused = rm(runs, name)
        assert (refused.code, "is no run" in refused.err) == (2, True)


def test_a_run_whose_metrics_cannot_be_read_is_not_without_an_iteration(runs: Path) -> None:
    run = made_run(runs / "run", 0)
    (run / "metrics.csv").write_text("Iteration;Steps\n1;64\n")
    assert "nothing to remove" in prune(runs).out


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_what_belongs_to_others_stays_under_its_name_and_the_rest_goes() -> None:
    with tempfile.TemporaryDirectory() as name:
        runs = Path(name)
        runs.chmod(0o777)
        theirs, ours = made_run(runs / "a-theirs", 0), made_run(runs / "b-ours", 0)
        for path in (ours, *ours.rglob("*")):
            os.chown(path, UNPRIVILEGED, UNPRIVILEGED)
        if (child := os.fork()) == 0:
            os.chdir(runs)
            os.setuid(UNPRIVILEGED)
            refused, pruned = rm(runs, theirs.name), prune(runs)
            is_right = refused.code == pruned.code == 1 and "cannot be removed" in refused.err
            os._exit(0 if is_right and "cannot be removed" in pruned.err else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (theirs / "experiment.toml").exists()
        assert [path.name for path in runs.iterdir()] == ["a-theirs"]


def test_what_cannot_be_removed_gets_its_name_back(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = made_run(runs / "run")

    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("shutil.rmtree", fail)
    refused = rm(runs, "run")
    assert (refused.code, "cannot be removed: Input/output error" in refused.err) == (1, True)
    assert (run / "experiment.toml").exists()


def test_the_current_folder_can_be_removed(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made_run(runs / "run"))
    assert rm(Path("runs"), ".").code == 0
    assert not (runs / "run").exists()
