"""What a misbehaving simulator leads to on RLlib: its message, its record, and a run that goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from muster.errors import SimulatorError
from muster.runs.metrics import read_metrics
from muster.stepping.replay import read_recorded, replay
from muster.training import TrainResult
from muster.training.listener import Silence
from tests.engines.rllib.runs import small
from tests.misbehaving import FAILS_AT

FEW_STEPS = {"min_sample_timesteps_per_iteration": 100}


class Heard(Silence):
    """Keeps what a run tells."""

    def __init__(self) -> None:
        self.failures: list[tuple[str, str]] = []
        self.notices: list[str] = []

    def failed(self, error: str, traceback: str) -> None:
        self.failures.append((error, traceback))

    def noticed(self, message: str) -> None:
        self.notices.append(message)


def run(how: str, workers: int, folder: Path, every: int = 5, **changes: Any) -> tuple[TrainResult, Heard]:
    heard = Heard()
    changes["env__config"] = {"how": how, "every": every, "index": "{index}"}
    changes |= {"resources__workers": workers, "env__step_timeout": 1 if "hang" in how else None}
    return small("tests.misbehaving:Misbehaving", folder, listener=heard, **changes), heard


def recorded(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((folder / "run" / "failures").glob("*.json"))]


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.long)])
def test_a_failure_keeps_what_repeats_it(workers: int, tmp_path: Path, ray_with_four_cpus: None) -> None:
    result, heard = run("outside", workers, tmp_path, stop__iterations=3)
    assert result.state == "finished"
    message = "ValueError: observation lies outside its space: entry "
    assert heard.failures and all(message in error for error, _ in heard.failures)
    for file in recorded(tmp_path):
        assert (file["call"], file["step"], len(file["actions"])) == ("step", FAILS_AT, FAILS_AT + 1)
        assert file["index"] == max(0, file["group"] - 1) * 2 + file["env"]
    with pytest.raises(SimulatorError, match="the same failure again"):
        list(replay(read_recorded(tmp_path / "run" / "failures" / "0001.json")))


def test_bounds_that_are_not_checked_let_an_observation_pass(tmp_path: Path, ray_with_four_cpus: None) -> None:
    _, heard = run("outside", 0, tmp_path, env__check_bounds=False, stop__iterations=3)
    assert heard.failures == []


def test_a_simulator_is_built_anew_after_so_many_episodes(tmp_path: Path, ray_with_four_cpus: None) -> None:
    result, heard = run("close", 0, tmp_path, env__restart_every=2)
    closed = [file["episode"] for file in recorded(tmp_path)]
    assert result.state == "finished"
    assert all("RuntimeError: the socket is gone (in close: group 0" in error for error, _ in heard.failures)
    assert closed[:6] == [1, 1, 3, 3, 5, 5]


@pytest.mark.parametrize(
    ("workers", "algorithm"),
    [pytest.param(0, "PPO", marks=pytest.mark.long), (1, "PPO"), pytest.param(1, "DQN", marks=pytest.mark.long)],
)
def test_a_call_that_hangs_is_interrupted(
    workers: int, algorithm: str, tmp_path: Path, ray_with_four_cpus: None
) -> None:
    changes: dict[str, Any] = {} if algorithm == "PPO" else {"algorithm__rllib": FEW_STEPS}
    result, heard = run("hang", workers, tmp_path, every=7, algorithm=algorithm, stop__iterations=3, **changes)
    last = read_metrics(tmp_path / "run" / "metrics.csv")[-1]
    message = "TimeoutError: step took longer than env.step_timeout = 1 s (in step: group "
    assert (result.state, last["failures/worker"]) == ("finished", "0")
    assert int(last["failures/simulator"]) == len(heard.failures) > 0
    assert all(message in error and "time.sleep(60)" in trace for error, trace in heard.failures)
    assert {len(file["actions"]) for file in recorded(tmp_path)} == {FAILS_AT + 1}
    warning = "with --workers 0, env.step_timeout can interrupt only"
    assert any(warning in notice for notice in heard.notices) == (workers == 0)


@pytest.mark.long
@pytest.mark.parametrize("how", ["hang in C", "hang deaf"])
def test_a_worker_that_heeds_no_interruption_is_replaced(
    how: str, tmp_path: Path, ray_with_four_cpus: None
) -> None:
    result, _ = run(how, 2, tmp_path, every=11, stop__iterations=5)
    last = read_metrics(tmp_path / "run" / "metrics.csv")[-1]
    assert result.state == "finished"
    assert int(last["failures/worker"]) > 0


@pytest.mark.long
def test_every_simulator_has_an_index_of_its_own(tmp_path: Path, ray_with_four_cpus: None) -> None:
    changes: dict[str, Any] = {"evaluation__every": 1, "evaluation__episodes": 1, "resources__env_groups": 1}
    changes["env__config"] = {"folder": "{folder}"}
    small("tests.toys:Housed", tmp_path, resources__workers=2, **changes)
    folders = tmp_path / "run" / "simulators"
    built = {folder.name: (folder / "built").read_text() for folder in folders.iterdir()}
    assert set(built) == {"0000", "0001", "0002", "0003", "0004"}
    assert (built["0000"], built["0001"], built["0003"]) == ("x", "x", "x")
    assert built["0004"] == "xx"


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.long)])
def test_an_observation_that_lacks_a_part_is_a_failure(
    workers: int, tmp_path: Path, ray_with_four_cpus: None
) -> None:
    with pytest.raises(SimulatorError, match="seen"):
        small("tests.misbehaving:LosesPart", tmp_path, env__config={"part": "seen"}, resources__workers=workers)
    assert recorded(tmp_path)


def test_the_last_observation_of_an_episode_needs_no_mask(tmp_path: Path) -> None:
    small("tests.misbehaving:LosesPart", tmp_path, env__config={"part": "action_mask"})
    assert not recorded(tmp_path)
