"""Sweeps on a real Tune: schedulers, workers, search, failures. All on one Ray of four CPUs."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from muster.errors import ClusterError
from muster.experiment import Override, load_experiment
from muster.experiment.schema import Experiment
from muster.runs.files import read_json_lines
from muster.runs.status import read_status
from muster.sweeps import SweepOptions, SweepResult, sweep
from muster.sweeps.folder import SweepFolder
from muster.sweeps.record import SweepRecord
from muster.training import TrainOptions, train

pytestmark = pytest.mark.usefixtures("ray_with_four_cpus")

QUICK: dict[str, Any] = {
    "env": {"id": "tests.toys:Guess"},
    "algorithm": {"train_batch_size": 256, "minibatch_size": 64},
    "resources": {"workers": 0, "env_groups": 2, "envs_per_group": 4},
    "stop": {"iterations": 6},
}


class Notes:
    """Listens, and keeps what it hears."""

    def __init__(self) -> None:
        self.failures: dict[str, str] = {}
        self.states: list[tuple[str, str]] = []
        self.notices: list[str] = []

    def started(self, record: SweepRecord, experiment: Experiment) -> None:
        """Ignore."""

    def changed(self, record: SweepRecord, trial: str) -> None:
        self.states.append((trial, record.find(trial).state))

    def noticed(self, message: str) -> None:
        self.notices.append(message)

    def failed(self, trial: str, details: str) -> None:
        self.failures[trial] = details


class Killer(Notes):
    """Kills the process of the first trial, once, after its fifth iteration."""

    has_killed = False

    def changed(self, record: SweepRecord, trial: str) -> None:
        super().changed(record, trial)
        if not self.has_killed and record.find(trial).iteration >= 5:
            status = read_status(record.folder.trial(trial).status)
            assert status is not None
            os.kill(status.pid, signal.SIGKILL)
            self.has_killed = True


def run(
    folder: Path,
    section: dict[str, Any],
    *,
    resume: bool = False,
    listener: Notes | None = None,
    **settings: Any,
) -> tuple[SweepResult, Notes]:
    path = folder / "exp.toml"
    path.write_text('[env]\nid = "tests.toys:Guess"\n')
    leaves = {f"{table}.{key}": value for table, keys in QUICK.items() for key, value in keys.items()}
    given = {**leaves, "sweep": section, "name": "s", **{k.replace("__", "."): v for k, v in settings.items()}}
    loaded = load_experiment(path, [Override(key, value, "test") for key, value in given.items()])
    notes = listener or Notes()
    return sweep(loaded, SweepOptions(folder / "runs", resume), notes), notes


@pytest.mark.long
def test_asha_saves_what_it_stops_and_a_resumed_sweep_leaves_it_stopped(tmp_path: Path) -> None:
    section = {
        "parameters": {"env.config.choices": {"grid": [2, 20, 40, 60]}},
        "scheduler": "asha",
        "grace_period": 2,
        "reduction_factor": 2,
        "concurrent": 1,
    }
    result, notes = run(tmp_path, section)
    assert (result.exit_code, result.best_trial, result.best_values) == (0, "trial-001", {"env.config.choices": 2})
    assert result.states == {"finished": 1, "stopped": 3}
    for name in ("trial-002", "trial-003", "trial-004"):
        stopped = tmp_path / "runs" / "s" / name
        status = read_status(stopped / "status.json")
        assert status is not None
        assert (status.state, status.iteration, status.exit_code) == ("stopped", 2, 0)
        assert status.reason.startswith("stopped early by asha")
        assert (stopped / "checkpoints" / "latest").resolve().name == "00000002"
    assert notes.states.index(("trial-001", "finished")) < notes.states.index(("trial-002", "running"))
    again, notes = run(tmp_path, section, resume=True)
    assert (again.states, notes.states) == (result.states, []), "nothing was left to do"
    went_on = train(
        tmp_path / "runs/s/trial-002/experiment.toml", options=TrainOptions(tmp_path / "runs/s", resume=True)
    )
    assert (went_on.state, went_on.iterations) == ("finished", 6)


@pytest.mark.long
def test_asha_remembers_the_trials_before_a_resume(tmp_path: Path) -> None:
    section: dict[str, Any] = {
        "parameters": {"env.config.choices": {"grid": [2, 40]}},
        "scheduler": "asha",
        "grace_period": 2,
        "reduction_factor": 2,
        "concurrent": 1,
    }
    run(tmp_path, section)
    record = json.loads((tmp_path / "runs/s/sweep.json").read_text())
    del record["trials"][1]
    (tmp_path / "runs/s/sweep.json").write_text(json.dumps(record))
    for file in sorted((tmp_path / "runs/s/trial-002").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() and not file.is_symlink() else file.unlink()
    result, _ = run(tmp_path, section, resume=True)
    assert result.states == {"finished": 1, "stopped": 1}, "the second is compared with the first"


def test_a_trial_that_fails_does_not_end_the_sweep(tmp_path: Path) -> None:
    parameters = {"env.config.how": {"grid": ["not", "raise"]}, "env.config.at": {"grid": [3]}}
    result, notes = run(tmp_path, {"parameters": parameters}, env__id="tests.toys:Failing")
    assert result.states == {"finished": 1, "failed": 1}
    assert (result.exit_code, result.best_trial) == (0, "trial-001")
    assert 'raise RuntimeError("the pump broke")' in notes.failures["trial-002"]
    assert "the pump broke" in (tmp_path / "runs/s/trials.csv").read_text()


@pytest.mark.long
def test_a_trial_whose_process_is_killed_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    section = {"parameters": {"algorithm.lr": {"grid": [1e-3]}}}
    result, notes = run(tmp_path, section, listener=Killer(), stop__iterations=9, checkpoint__every=2)
    assert result.states == {"finished": 1}, notes.failures
    assert notes.notices == ["trial-001: its process died; it resumes from its last checkpoint"]
    events = read_json_lines(tmp_path / "runs/s/trial-001/events.jsonl")
    assert [event["iteration"] for event in events if event["event"] == "started"] == [0, 4]


@pytest.mark.long
def test_if_all_trials_fail_the_exit_code_is_theirs(tmp_path: Path) -> None:
    parameters = {"env.config.how": {"grid": ["raise", "reset"]}}
    result, _ = run(tmp_path, {"parameters": parameters}, env__id="tests.toys:Failing")
    assert (result.reason, result.exit_code, result.best_file) == ("all trials failed", 3, None)


def test_a_metric_that_is_no_column(tmp_path: Path) -> None:
    section = {"parameters": {"algorithm.lr": {"grid": [1e-3]}}, "metric": "return/men"}
    result, notes = run(tmp_path, section)
    assert result.exit_code == 2
    assert "no column of metrics.csv; did you mean 'return/mean'?" in notes.failures["trial-001"]


@pytest.mark.long
def test_optuna_and_workers_in_the_trials_own_cpus(tmp_path: Path) -> None:
    parameters = {"algorithm.lr": {"loguniform": [1e-4, 1e-2]}, "model.hidden": {"choice": [[8], [16, 16]]}}
    section = {"parameters": parameters, "search": "optuna", "trials": 3, "metric": "length/mean", "mode": "min"}
    result, notes = run(tmp_path, section, resources__workers=1)
    assert result.states == {"finished": 3}, notes.failures
    for name in ("trial-001", "trial-002", "trial-003"):
        started = read_json_lines(tmp_path / "runs/s" / name / "events.jsonl")[0]
        assert (started["event"], started["workers"]) == ("started", 1)


def test_more_cpus_than_there_are(tmp_path: Path) -> None:
    section = {"parameters": {"algorithm.lr": {"grid": [1e-3]}}}
    with pytest.raises(ClusterError, match=r"a trial needs 8 CPUs .* but the Ray in use has 4 CPUs"):
        run(tmp_path, section, resources__workers=7)


def exploit(tmp_path: Path, num_trials: int, iterations: int) -> None:
    """Sweep with PBT, and look that some trials went on from others with changed values in bounds."""
    parameters = {
        "algorithm.lr": {"loguniform": [1e-6, 1e-1]},
        "algorithm.gamma": {"uniform": [0.5, 0.6]},
        "algorithm.num_epochs": {"uniform": [1, 3]},
    }
    section = {"parameters": parameters, "scheduler": "pbt", "trials": num_trials, "perturbation_interval": 3}
    result, notes = run(tmp_path, section, stop__iterations=iterations)
    assert result.states == {"finished": num_trials}, notes.failures
    record = SweepRecord.load(SweepFolder(Path(result.sweep)))
    exploited = 0
    for trial in record.trials:
        folder = tmp_path / "runs" / "s" / trial.name
        events = [e for e in read_json_lines(folder / "events.jsonl") if e["event"] == "exploited"]
        exploited += len(events)
        if events:
            assert trial.values == events[-1]["values"]
            assert events[-1]["trial"] != trial.name
        assert 0.5 <= trial.values["algorithm.gamma"] <= 0.6
        assert trial.values["algorithm.num_epochs"] in (1, 2, 3)
        rows = (folder / "metrics.csv").read_text().splitlines()
        assert rows[-1].startswith(f"{iterations},")
    assert exploited


@pytest.mark.long
def test_pbt_goes_on_from_better_trials_with_changed_values(tmp_path: Path) -> None:
    exploit(tmp_path, num_trials=3, iterations=9)


@pytest.mark.long
def test_pbt_takes_turns_where_cpus_are_short(tmp_path: Path) -> None:
    exploit(tmp_path, num_trials=6, iterations=15)
