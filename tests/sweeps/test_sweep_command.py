"""`muster sweep` as a user runs it: its JSON and files, interruption, kill -9 and resume."""

from __future__ import annotations

import csv
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.commands import last_json, muster, start_muster, wait_until

FILE = """
[env]
id = "CartPole-v1"
[algorithm]
train_batch_size = 256
[stop]
iterations = {iterations}
[checkpoint]
every = 3
[sweep]
{settings}
[sweep.parameters]
{parameters}
"""
GRID = '"algorithm.lr" = { grid = [1e-4, 1e-3] }\n"algorithm.num_epochs" = { grid = [2, 4] }'
LR = '"algorithm.lr" = { loguniform = [1e-6, 1e-2] }'


def write(folder: Path, parameters: str, settings: str = "", iterations: int = 4) -> None:
    text = FILE.format(parameters=parameters, settings=settings, iterations=iterations)
    (folder / "exp.toml").write_text(text)


def trials(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "runs" / "s" / "trials.csv").open() as file:
        return {row["trial"]: row for row in csv.DictReader(file)}


def lines_of(metrics: Path) -> int:
    return metrics.read_text().count("\n") if metrics.exists() else 0


@pytest.mark.long
def test_a_grid_end_to_end(tmp_path: Path) -> None:
    write(tmp_path, GRID)
    done = muster("sweep", "exp.toml", "--name", "s", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = last_json(done)
    assert list(result) == [
        "sweep",
        "reason",
        "trials",
        "states",
        "metric",
        "best_trial",
        "best_metric",
        "best_values",
        "best_file",
        "exit_code",
    ]
    assert len(done.stdout.splitlines()) == 1
    assert (result["trials"], result["states"]) == (4, {"finished": 4})
    found = trials(tmp_path)
    pairs = {(float(row["algorithm.lr"]), int(row["algorithm.num_epochs"])) for row in found.values()}
    assert pairs == {(1e-4, 2), (1e-4, 4), (1e-3, 2), (1e-3, 4)}
    best = max(found, key=lambda name: float(found[name]["return/mean"]))
    assert (result["best_trial"], result["best_metric"]) == (best, float(found[best]["return/mean"]))
    assert sorted(path.name for path in (tmp_path / "runs" / "s").iterdir()) == [
        "best.toml",
        "lock",
        "sweep.json",
        "sweep.toml",
        "trial-001",
        "trial-002",
        "trial-003",
        "trial-004",
        "trials.csv",
    ]
    _use_the_trials(tmp_path, result)
    assert "a sweep of that name exists" in muster("sweep", "exp.toml", "--name", "s", cwd=tmp_path).stderr


def _use_the_trials(folder: Path, result: dict[str, Any]) -> None:
    """Every command for runs works on a trial, and the best file trains."""
    assert "s/trial-004" in muster("runs", cwd=folder).stdout
    shown = last_json(muster("show", "s/trial-002", "--json", cwd=folder))
    assert (shown["iteration"], shown["experiment"]["algorithm"]["num_epochs"]) == (4, 4)
    evaluated = last_json(muster("evaluate", "s/trial-001", "--episodes", "1", "--json", cwd=folder))
    assert evaluated["episodes"] == 1
    trained = last_json(muster("train", result["best_file"], "--json", cwd=folder))
    assert (trained["state"], trained["iterations"]) == ("finished", 4)
    assert trained["return_mean"] == result["best_metric"], "the same experiment, the same seed"


def test_train_ignores_the_sweep_and_says_so(tmp_path: Path) -> None:
    write(tmp_path, GRID)
    done = muster("train", "exp.toml", "--name", "one", "--stop-iterations", "1", cwd=tmp_path)
    assert done.returncode == 0
    assert "[sweep] is not used here" in done.stdout
    assert "[sweep" not in (tmp_path / "runs/one/experiment.toml").read_text()
    assert muster("train", "exp.toml", "--name", "one", "--resume", cwd=tmp_path).returncode == 0


def test_bad_input(tmp_path: Path) -> None:
    without = muster("sweep", "CartPole-v1", cwd=tmp_path)
    assert (without.returncode, "the experiment has no [sweep]" in without.stderr) == (2, True)
    write(tmp_path, GRID)
    workers = muster("sweep", "exp.toml", "--set", "resources.workers=5000", cwd=tmp_path)
    assert workers.returncode == 4
    assert "a trial needs 5001 CPUs" in workers.stderr
    assert "this machine has" in workers.stderr
    unknown = ["--set", "algorithm.name=DQN", "--set", "sweep.parameters.algorithm.lrr={ grid = [1e-4, 1e-3] }"]
    misspelt = muster("sweep", "exp.toml", *unknown, cwd=tmp_path)
    assert misspelt.returncode == 2
    assert "sweep.parameters.algorithm.lrr: [algorithm] of DQN has no key 'lrr'" in misspelt.stderr
    assert "did you mean 'lr'?" in misspelt.stderr


@pytest.mark.long
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGUSR2, 75)])
def test_an_interruption_saves_all_trials_and_resume_finishes(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    write(tmp_path, LR, "trials = 2\nconcurrent = 1", iterations=100_000)
    process = start_muster("sweep", "exp.toml", "--name", "s", "--json", "--quiet", cwd=tmp_path, new_session=True)
    metrics = tmp_path / "runs/s/trial-001/metrics.csv"
    wait_until(lambda: lines_of(metrics) > 4, "the first trial to train")
    os.killpg(process.pid, number)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == code, stderr
    assert json.loads(stdout.splitlines()[-1])["exit_code"] == code
    status = json.loads((metrics.parent / "status.json").read_text())
    assert (status["state"], status["exit_code"]) == ("stopped", code)
    assert (
        int((metrics.parent / "checkpoints/latest").resolve().name) == status["iteration"] == lines_of(metrics) - 1
    )
    more = str(status["iteration"] + 2)
    command = ["sweep", "exp.toml", "--name", "s", "--resume", "--json", "--set", f"stop.iterations={more}"]
    result = last_json(muster(*command, cwd=tmp_path))
    assert result["states"] == {"finished": 2}
    changed = muster(*command, "--set", "algorithm.gamma=0.5", cwd=tmp_path)
    assert changed.returncode == 2
    assert "is 0.5, but the sweep to resume has 0.99" in changed.stderr


@pytest.mark.long
def test_the_wall_time_saves_all_trials(tmp_path: Path) -> None:
    write(tmp_path, LR, "trials = 2", iterations=100_000)
    end = time.time() + 25
    done = muster("sweep", "exp.toml", "--name", "s", "--json", cwd=tmp_path, MUSTER_END_TIME=str(end))
    assert time.time() < end
    assert done.returncode == 75
    assert last_json(done)["reason"] == "the wall time is about to end"


def starts(trial: Path) -> list[int]:
    """Return the iterations at which a trial was started."""
    events = [json.loads(line) for line in (trial / "events.jsonl").read_text().splitlines()]
    return [event["iteration"] for event in events if event["event"] == "started"]


def killed_and_resumed(folder: Path, num_trials: int, killed_in: str) -> None:
    """Kill a sweep with ASHA in the middle, resume it, and look that every trial is accounted for."""
    settings = f"trials = {num_trials}\nscheduler = 'asha'\ngrace_period = 4\nreduction_factor = 2"
    write(folder, LR, settings, iterations=40)
    process = start_muster("sweep", "exp.toml", "--name", "s", "--quiet", cwd=folder)
    metrics = folder / "runs/s" / killed_in / "metrics.csv"
    wait_until(lambda: lines_of(metrics) > 2, f"{killed_in} to train", 120)
    process.kill()
    process.communicate()
    before = {path.parent: json.loads(path.read_text()) for path in folder.glob("runs/s/*/status.json")}
    done = muster("sweep", "exp.toml", "--name", "s", "--resume", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    result, found = last_json(done), trials(folder)
    assert result["trials"] == len(found) == num_trials
    assert set(result["states"]) <= {"finished", "stopped"}
    for trial, status in before.items():
        was_done = status["state"] == "finished" or (status["state"] == "stopped" and status["exit_code"] == 0)
        first, *again = starts(trial)
        assert first == 0
        # One that was killed before it had begun to train begins once.
        assert len(again) == 0 if was_done else len(again) <= 1
        assert all(iteration % 3 == 0 for iteration in again), "it goes on from its own checkpoint"
    assert any(len(starts(trial)) == 2 for trial in before)
    trained = muster("train", result["best_file"], "--stop-iterations", "2", "--quiet", cwd=folder)
    assert trained.returncode == 0, trained.stderr


@pytest.mark.long
def test_killed_in_the_middle_and_resumed(tmp_path: Path) -> None:
    killed_and_resumed(tmp_path, num_trials=3, killed_in="trial-001")


@pytest.mark.long
def test_eight_trials_killed_in_the_middle_and_resumed(tmp_path: Path) -> None:
    killed_and_resumed(tmp_path, num_trials=8, killed_in="trial-003")
