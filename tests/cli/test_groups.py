"""Folders of several runs: the seeds of an experiment, and a sweep, in `runs`, `show` and `evaluate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster.runs.folder import RunFolder
from muster.runs.groups import find_group
from muster.runs.summary import RunSummary, summarize
from tests.commands import last_json, muster

QUICK = ["--workers", "0", "--stop-iterations", "1"]
SWEEP = """
[env]
id = "CartPole-v1"
[algorithm]
train_batch_size = 256
[stop]
iterations = 1
[sweep]
concurrent = 1
[sweep.parameters]
"algorithm.lr" = { grid = [1e-4, 1e-3] }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two seeds in `house` and two trials in `tuned`."""
    path = tmp_path_factory.mktemp("user")
    seeds = muster("train", "CartPole-v1", *QUICK, "--seeds", "2", "--name", "house", cwd=path)
    assert seeds.returncode == 0, seeds.stderr
    (path / "sweep.toml").write_text(SWEEP)
    swept = muster("sweep", "sweep.toml", "--name", "tuned", cwd=path)
    assert swept.returncode == 0, swept.stderr
    assert "muster evaluate runs/tuned" in swept.stdout
    return path


def test_a_group_is_found_by_name_or_folder(folder: Path) -> None:
    runs = folder / "runs"
    house, tuned = find_group("house", runs), find_group(runs / "tuned", Path("elsewhere"))
    assert house is not None
    assert (house.kind, [member.name for member in house.members]) == ("seeds", ["seed-0", "seed-1"])
    assert tuned is not None
    assert (tuned.kind, [member.name for member in tuned.members]) == ("sweep", ["trial-001", "trial-002"])
    for other in ("", "nothing", runs / "house" / "seed-0", runs):
        assert find_group(other, runs) is None


def test_show(folder: Path) -> None:
    seeds = muster("show", "house", cwd=folder)
    assert seeds.returncode == 0, seeds.stderr
    assert "2 seeds in runs/house" in seeds.stdout
    assert "seed-1  finished" in seeds.stdout
    found = last_json(muster("show", "house", "--json", cwd=folder))
    assert [run["run"] for run in found["runs"]] == ["runs/house/seed-0", "runs/house/seed-1"]
    sweep = muster("show", "runs/tuned", cwd=folder)
    assert "sweep runs/tuned: 2 finished; max of return/mean" in sweep.stdout
    assert "best: trial-00" in sweep.stdout
    assert len(last_json(muster("show", "tuned", "--json", cwd=folder))["trials"]) == 2


def test_evaluate(folder: Path) -> None:
    few = ["--episodes", "3"]
    seeds = muster("evaluate", "house", *few, cwd=folder)
    assert seeds.returncode == 0, seeds.stderr
    first, second, mean = seeds.stdout.splitlines()
    assert first.startswith("seed-0, checkpoint")
    assert second.startswith("seed-1, checkpoint")
    assert mean.startswith("mean of 2 seeds in the same episodes: return")
    found = last_json(muster("evaluate", "house", *few, "--json", cwd=folder))
    alone = last_json(muster("evaluate", "house/seed-1", *few, "--seed", "0", "--json", cwd=folder))
    assert found["runs"][1] == {**alone, "run": "runs/house/seed-1"}
    assert found["return_mean"] == pytest.approx(sum(run["return_mean"] for run in found["runs"]) / 2)
    best = last_json(muster("show", "tuned", "--json", cwd=folder))["best_trial"]
    assert last_json(muster("evaluate", "tuned", *few, "--json", cwd=folder))["run"] == f"runs/tuned/{best}"
    refused = muster("evaluate", "house", "--last", "2", cwd=folder)
    assert (refused.returncode, "holds several runs" in refused.stderr) == (2, True)


def test_runs_have_simulator_algorithm_and_time(folder: Path) -> None:
    listed = muster("runs", cwd=folder, COLUMNS="80").stdout.splitlines()
    assert listed[0].split() == ["run", "state", "simulator", "algorithm", "steps", "return", "time", "ago"]
    assert listed[-1].split()[1:5] == ["finished", "CartPole-v1", "PPO", "2,048"]
    long = "a-name-that-is-longer-than-what-is-left-of-a-line"
    assert muster("train", "CartPole-v1", *QUICK, "--name", long, cwd=folder).returncode == 0
    narrow = muster("runs", cwd=folder, COLUMNS="80").stdout
    assert narrow.splitlines()[0].split()[-1] == "ago"
    assert max(map(len, narrow.splitlines())) <= 80
    assert long in "".join(line[: narrow.index(" state")].strip() for line in narrow.splitlines())
    assert len(muster("runs", "tuned", cwd=folder).stdout.splitlines()) == 3
    found = json.loads(muster("runs", "house", "--json", cwd=folder).stdout)
    assert [(run["simulator"], run["algorithm"]) for run in found] == [("CartPole-v1", "PPO")] * 2
    assert all(run["seconds"] > 0 for run in found)
    unknown = muster("runs", "nothing", cwd=folder)
    assert (unknown.returncode, "no such runs in" in unknown.stdout) == (0, True)


def test_a_damaged_run_has_an_empty_summary(tmp_path: Path) -> None:
    (tmp_path / "experiment.toml").write_bytes(b"\xff\x00[env")
    (tmp_path / "metrics.csv").write_text("iteration,steps\n")
    assert summarize(RunFolder(tmp_path)) == RunSummary()
    (tmp_path / "experiment.toml").write_text("env = 3\nalgorithm = []")
    assert summarize(RunFolder(tmp_path)) == RunSummary()
