"""Whole runs in batched simulators: workers, resume, hangs, and all commands that take one simulator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psutil
import pytest

from muster import train
from muster.errors import ExperimentError
from muster.training import TrainOptions, TrainResult
from muster.training.listener import Silence
from tests.commands import muster_here, policy_bytes, timeless_metrics

SMALL = {
    "evaluation.every": 0,
    "resources.workers": 0,
    "resources.env_groups": 2,
    "resources.envs_per_group": 3,
    "algorithm.train_batch_size": 240,
    "algorithm.minibatch_size": 80,
    "model.hidden": [8],
    "stop.iterations": 3,
    "name": "run",
}
GUESSES = "tests.batches:sync"


class Heard(Silence):
    def __init__(self) -> None:
        self.notices: list[str] = []
        self.failures: list[str] = []

    def noticed(self, message: str) -> None:
        self.notices.append(message)

    def failed(self, error: str, traceback: str) -> None:
        self.failures.append(error)


def small(target: str, folder: Path, *, resume: bool = False, **changes: Any) -> tuple[TrainResult, Heard]:
    heard = Heard()
    overrides = {**SMALL, **{key.replace("__", "."): value for key, value in changes.items()}}
    options = TrainOptions(runs_dir=folder, resume=resume)
    return train(target, overrides=overrides, options=options, listener=heard), heard


@pytest.mark.parametrize(
    ("target", "config"),
    [
        (GUESSES, {"of": "Guess", "mode": "NextStep"}),
        (GUESSES, {"of": "Parts", "mode": "SameStep"}),
        ("envpool:Pendulum-v1", {"max_episode_steps": 25}),
    ],
)
def test_workers_change_nothing(
    target: str, config: dict[str, Any], tmp_path: Path, ray_with_four_cpus: None
) -> None:
    if target.startswith("envpool"):
        pytest.importorskip("envpool")
    for workers in (0, 2):
        folder = tmp_path / str(workers)
        result, heard = small(target, folder, env__config=config, resources__workers=workers)
        assert result.state == "finished" and not heard.failures
    one, other = tmp_path / "0" / "run", tmp_path / "2" / "run"
    assert timeless_metrics(one) == timeless_metrics(other)
    assert policy_bytes(one) == policy_bytes(other)


@pytest.mark.parametrize("mode", ["NextStep", "Disabled"])
def test_resuming_is_exact_where_the_batch_pickles(mode: str, tmp_path: Path) -> None:
    # A rate that falls to zero depends on where the end is.
    same: dict[str, Any] = {"env__config": {"of": "Guess", "mode": mode}, "algorithm__lr_schedule": "constant"}
    whole, heard = small(GUESSES, tmp_path / "whole", stop__iterations=4, **same)
    small(GUESSES, tmp_path, stop__iterations=2, **same)
    small(GUESSES, tmp_path, stop__iterations=4, resume=True, **same)
    assert not heard.notices
    assert policy_bytes(tmp_path / "run") == policy_bytes(Path(whole.run))


@pytest.mark.parametrize(
    ("target", "config"), [("envpool:CartPole-v1", {}), ("tests.batches:asynchronous", {"of": "Guess"})]
)
def test_resuming_begins_new_episodes_where_it_does_not(
    target: str, config: dict[str, Any], tmp_path: Path
) -> None:
    if target.startswith("envpool"):
        pytest.importorskip("envpool")
    _, heard = small(target, tmp_path, env__config=config, stop__iterations=1)
    assert len([notice for notice in heard.notices if "resuming will begin new episodes" in notice]) == 1
    result, heard = small(target, tmp_path, env__config=config, stop__iterations=2, resume=True)
    assert (result.iterations, heard.failures) == (2, [])


@pytest.mark.parametrize(
    ("workers", "how"), [(0, "hang"), (1, "die"), pytest.param(1, "hang", marks=pytest.mark.long)]
)
def test_a_batch_that_hangs_or_ends_its_process_is_replaced(
    workers: int, how: str, tmp_path: Path, ray_with_four_cpus: None
) -> None:
    settings: Any = {
        "env__config": {"how": how, "after": 100},
        "env__step_timeout": 0.5,
        "resources__workers": workers,
    }
    result, heard = small("tests.batches:broken", tmp_path, resources__env_groups=1, **settings)
    assert result.state == "finished"
    expected = "TimeoutError: step took longer than env.step_timeout = 0.5 s" if how == "hang" else "ProcessDied"
    assert all(expected in failure for failure in heard.failures) and heard.failures
    assert all("group 0, all of its simulators" in failure for failure in heard.failures)
    assert all("cannot be replayed" in failure for failure in heard.failures)
    record = json.loads((tmp_path / "run" / "failures" / "0001.json").read_text())
    assert (record["env"], record["actions"], record["seed"]) == (None, None, None)
    ended = muster_here("play", "--replay", tmp_path / "run" / "failures" / "0001.json")
    assert ended.code == 2 and "a batch of simulators failed" in ended.err


def test_the_failure_of_one_of_a_batch_can_be_replayed(tmp_path: Path) -> None:
    config = {"of": "Failing", "mode": "Disabled", "how": "outside", "at": 12, "every": 7}
    _, heard = small(GUESSES, tmp_path, env__config=config)
    assert "lies outside its space" in heard.failures[0]
    record = json.loads((tmp_path / "run" / "failures" / "0001.json").read_text())
    assert (record["episode"], record["step"], len(record["actions"])) == (1, 1, 2)
    record["simulator"]["config"] |= {"at": 2, "every": 1}
    (tmp_path / "again.json").write_text(json.dumps(record))
    ended = muster_here("play", "--replay", tmp_path / "again.json")
    assert ended.code == 3 and "the same failure again" in ended.err


def test_all_commands_take_a_batched_simulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("envpool")
    monkeypatch.chdir(tmp_path)
    checked = muster_here("check", "envpool:CartPole-v1", "--json")
    assert checked.code == 0
    findings = {finding["subject"]: finding for finding in json.loads(checked.out)["findings"]}
    assert "batch" in findings["batch"]["message"] and findings["repeats"]["verdict"] == "ok"
    small("envpool:CartPole-v1", tmp_path, stop__iterations=1)
    evaluated = muster_here("evaluate", "run", "--runs-dir", tmp_path, "--episodes", "3", "--json")
    again = muster_here("evaluate", "run", "--runs-dir", tmp_path, "--episodes", "3", "--json")
    assert evaluated.code == 0 and json.loads(evaluated.out)["return_mean"] > 5
    assert evaluated.out == again.out
    played = muster_here("play", "run", "--runs-dir", tmp_path, "--episodes", "2")
    assert played.code == 0 and "episode 2: return" in played.out
    random = muster_here("play", "envpool:Pendulum-v1", "--video", "film.gif")
    assert random.code == 0 and (tmp_path / "film.gif").stat().st_size > 1000
    for ended in (checked, evaluated, played, random):
        assert "WARN" not in ended.err and "warn" not in ended.err.lower()


@pytest.mark.long
def test_rllib_trains_in_one_of_a_batch(tmp_path: Path) -> None:
    pytest.importorskip("envpool")
    changes: Any = {"algorithm__engine": "rllib", "resources__envs_per_group": 2, "algorithm__num_epochs": 1}
    result, heard = small("envpool:CartPole-v1", tmp_path, stop__iterations=1, **changes)
    assert result.state == "finished" and not heard.failures


@pytest.mark.parametrize(
    ("target", "settings", "message"),
    [
        ("tests.batches:two", {}, "gives a batch of 2, expected"),
        ("tests.batches:few", {}, "gives a batch of 1, expected a gymnasium.vector.VectorEnv of 3"),
        ("tests.toys:Guess", {"env__vectorized": True}, "does not take num_envs"),
        ("tests.batches:fixed", {}, "a batch of 3; expected a single simulator"),
        (
            "tests.batches:sync",
            {"env__vectorized": False, "env__config": {"num_envs": 2, "of": "Guess"}},
            "batch of 2",
        ),
    ],
)
def test_what_is_no_batch_ends_as_a_wrong_experiment(
    target: str, settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ExperimentError, match=message) as caught:
        small(target, tmp_path, **settings)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_process_of_a_batch_that_hangs_is_ended_and_the_batch_replaced(
    workers: int, tmp_path: Path, ray_with_four_cpus: None
) -> None:
    before = set(psutil.Process().children(recursive=True))
    changes: Any = {"env__config": {"file": str(tmp_path / "hung")}, "env__step_timeout": 1}
    result, heard = small("tests.batches:hanging_processes", tmp_path, resources__workers=workers, **changes)
    assert result.state == "finished"
    assert [error.partition(" =")[0] for error in heard.failures] == [
        "TimeoutError: step took longer than env.step_timeout"
    ]
    left = set(psutil.Process().children(recursive=True)) - before if not workers else set()
    assert not left


def test_a_batch_has_eight_simulators_by_default(tmp_path: Path) -> None:
    pytest.importorskip("envpool")
    overrides = {"resources.workers": 0, "stop.iterations": 1, "name": "run"}
    train("envpool:CartPole-v1", overrides=overrides, options=TrainOptions(runs_dir=tmp_path))
    sources = json.loads((tmp_path / "run" / "sources.json").read_text())
    assert sources["resources.envs_per_group"] == "default where simulators step together"
    assert "envs_per_group = 8\n" in (tmp_path / "run" / "experiment.toml").read_text()
    findings = json.loads(muster_here("check", "envpool:CartPole-v1", "--json").out)["findings"]
    assert "a batch of 8 takes" in next(one["message"] for one in findings if one["subject"] == "build")
