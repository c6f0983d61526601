"""One run from beginning to end, through the Python interface."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import muster
from muster import Experiment, load_policy, train
from muster.errors import (
    CheckpointError,
    ClusterError,
    ExperimentError,
    InputError,
    NonFiniteUpdateError,
    SimulatorError,
    StorageError,
)
from muster.policies.mlp_policy import MLPPolicy
from muster.runs.files import read_json_lines
from muster.runs.finding import find_checkpoint
from muster.runs.metrics import read_metrics
from muster.training import TrainOptions, TrainResult
from muster.training.listener import Silence
from muster.training.progress import Progress
from muster.training.seeds import confidence_interval

SMALL = {
    "evaluation.every": 0,
    "resources.workers": 0,
    "resources.env_groups": 2,
    "resources.envs_per_group": 2,
    "algorithm.train_batch_size": 80,
    "algorithm.minibatch_size": 40,
    "model.hidden": [8],
    "stop.iterations": 3,
    "name": "run",
}


def small(target: str, folder: Path, *, resume: bool = False, listener: Any = None, **changes: Any) -> TrainResult:
    overrides = {**SMALL, **{key.replace("__", "."): value for key, value in changes.items()}}
    options = TrainOptions(runs_dir=folder, resume=resume)
    return train(target, overrides=overrides, options=options, listener=listener)


def test_the_run_folder_holds_what_the_contract_says(tmp_path: Path) -> None:
    result = small("tests.toys:Guess", tmp_path)
    run = tmp_path / "run"
    assert result == TrainResult(
        str(run), "finished", "3 iterations done", 240, 3, result.return_mean, str(run / "checkpoints/00000003"), 0
    )
    files = "experiment.toml sources.json versions.json status.json metrics.csv events.jsonl lock"
    assert {*files.split(), "tensorboard", "checkpoints"} == {path.name for path in run.iterdir()}
    assert json.loads((run / "versions.json").read_text())["muster"] == muster.__version__
    assert json.loads((run / "sources.json").read_text())["stop.iterations"] == "argument"
    rows = read_metrics(run / "metrics.csv")
    assert [row["steps"] for row in rows] == ["80", "160", "240"]
    again = train(run / "experiment.toml", overrides={"name": "again"}, options=TrainOptions(runs_dir=tmp_path))
    assert again.return_mean == result.return_mean


@pytest.mark.parametrize("algorithm", ["PPO", "TRPO"])
@pytest.mark.parametrize("name", ["Guess", "Aim"])
def test_every_iteration_learns(name: str, algorithm: str, tmp_path: Path) -> None:
    small(f"tests.toys:{name}", tmp_path, algorithm__name=algorithm)
    assert all(row["policy/entropy"] != "" for row in read_metrics(tmp_path / "run" / "metrics.csv"))


@pytest.mark.parametrize("algorithm", ["PPO", "TRPO"])
@pytest.mark.parametrize(("name", "goal"), [("Guess", 9.5), ("Aim", -0.3)])
def test_learns_what_can_be_learned(name: str, goal: float, algorithm: str, tmp_path: Path) -> None:
    overrides = {
        "algorithm.name": algorithm,
        "algorithm.lr": 3e-3,
        "stop.steps": 60_000,
        "stop.return": goal,
        "resources.workers": 0,
        "name": "run",
    }
    result = train(f"tests.toys:{name}", overrides=overrides, options=TrainOptions(runs_dir=tmp_path))
    assert result.return_mean is not None
    assert result.return_mean >= goal
    policy = load_policy(tmp_path / "run")
    if name == "Guess":
        assert [policy.act(shown) for shown in range(3)] == [0, 1, 2]
    else:
        np.testing.assert_allclose(policy.act(np.array([0.5, -0.5], np.float32)), [1.0, 2.5], atol=0.8)


@pytest.mark.parametrize("algorithm", ["PPO", "TRPO"])
def test_defaults_learn_with_few_steps(algorithm: str, tmp_path: Path) -> None:
    overrides = {"algorithm.name": algorithm, "stop.steps": 2000, "resources.workers": 0, "name": "run"}
    result = train("tests.toys:Identity", overrides=overrides, options=TrainOptions(runs_dir=tmp_path))
    assert result.iterations == 8
    sources = json.loads((tmp_path / "run" / "sources.json").read_text())
    assert sources["algorithm.train_batch_size"] == "default where stop.steps = 2000"
    policy = load_policy(tmp_path / "run")
    shown = np.linspace(-1, 1, 41, dtype=np.float32)
    near = [abs(float(policy.act(np.array([x], np.float32))[0] - x)) < 0.5 for x in shown]
    assert np.mean(near) >= 0.9


def test_the_status_names_scheduler_and_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small("tests.toys:Guess", tmp_path, name="laptop")
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n1")
    small("tests.toys:Guess", tmp_path, name="cluster")
    found = [json.loads((tmp_path / name / "status.json").read_text()) for name in ("laptop", "cluster")]
    assert [(status["scheduler"], status["job_id"]) for status in found] == [(None, None), ("slurm", "4711")]


def test_saving_changes_nothing(tmp_path: Path) -> None:
    frequent = small("tests.toys:Guess", tmp_path, name="often", checkpoint__every=1, stop__iterations=6)
    rare = small("tests.toys:Guess", tmp_path, name="rarely", checkpoint__every=6, stop__iterations=6)
    assert frequent.return_mean == rare.return_mean
    policies = [(tmp_path / name / "checkpoints/latest/policy.npz").read_bytes() for name in ("often", "rarely")]
    assert policies[0] == policies[1]


def test_evaluation_is_recorded_and_disturbs_nothing(tmp_path: Path) -> None:
    plain = small("tests.toys:GlobalRandomness", tmp_path, name="plain")
    evaluated = small("tests.toys:GlobalRandomness", tmp_path, name="evaluated", evaluation__every=1)
    assert plain.return_mean == evaluated.return_mean
    lines = read_json_lines(tmp_path / "evaluated" / "evaluations.jsonl")
    assert [line["iteration"] for line in lines] == [1, 2, 3]
    assert (tmp_path / "evaluated/checkpoints/best").exists()


def test_a_simulator_that_does_not_pickle_resumes_with_new_episodes(tmp_path: Path) -> None:
    small("tests.toys:Unpicklable", tmp_path)
    result = small("tests.toys:Unpicklable", tmp_path, resume=True, stop__iterations=5)
    assert result.iterations == 5
    events = [event["event"] for event in read_json_lines(tmp_path / "run" / "events.jsonl")]
    assert "simulators not saved" in events
    assert "episodes restarted" in events


def test_resume_keeps_the_run_s_own_settings_and_refuses_others(tmp_path: Path) -> None:
    small("tests.toys:Guess", tmp_path, algorithm__lr=0.01, algorithm__lr_schedule="constant")
    options = TrainOptions(runs_dir=tmp_path, resume=True)
    result = train("tests.toys:Guess", overrides={"name": "run", "stop.iterations": 4}, options=options)
    assert result.iterations == 4
    assert read_metrics(tmp_path / "run" / "metrics.csv")[-1]["learner/lr"] == "0.01"
    changes = {"name": "run", "algorithm.lr": 0.5, "seed": 3}
    with pytest.raises(ExperimentError, match="2 problems") as caught:
        train("tests.toys:Guess", overrides=changes, options=options)
    assert "algorithm.lr (argument): is 0.5, but the run to resume has 0.01" in str(caught.value)


def test_a_name_that_exists_is_not_overwritten(tmp_path: Path) -> None:
    small("tests.toys:Guess", tmp_path)
    with pytest.raises(InputError, match="use --resume to continue it"):
        small("tests.toys:Guess", tmp_path)


def test_from_starts_a_new_run_with_old_weights(tmp_path: Path) -> None:
    small("tests.toys:Guess", tmp_path, name="old", stop__iterations=10, algorithm__lr=0.01)
    options = TrainOptions(runs_dir=tmp_path, weights_from="old")
    overrides = {**SMALL, "name": "new", "stop.iterations": 1, "algorithm.lr": 1e-9}
    result = train("tests.toys:Guess", overrides=overrides, options=options)
    assert (result.iterations, result.steps) == (1, 80)
    old, new = (load_policy(tmp_path / name / "checkpoints" / "latest") for name in ("old", "new"))
    assert isinstance(old, MLPPolicy) and isinstance(new, MLPPolicy)
    np.testing.assert_allclose(new.layers[0][0], old.layers[0][0], atol=1e-4)
    with pytest.raises(CheckpointError, match="does not fit"):
        train("tests.toys:Guess", overrides={**overrides, "name": "other", "model.hidden": [9]}, options=options)


def test_a_damaged_checkpoint_gives_way_to_the_one_before_it(tmp_path: Path) -> None:
    small("tests.toys:Guess", tmp_path, checkpoint__every=1)
    checkpoints = tmp_path / "run" / "checkpoints"
    (checkpoints / "00000003" / "learner.npz").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"00000003/learner.npz: damaged(.|\n)*use another checkpoint"):
        find_checkpoint("run", "latest", tmp_path, print)
    assert small("tests.toys:Guess", tmp_path, resume=True, stop__iterations=4).iterations == 4
    assert (checkpoints / "00000003.damaged").is_dir()


def test_failures_are_recorded_and_too_many_end_the_run(tmp_path: Path) -> None:
    told: list[str] = []

    class Listener(Silence):
        def failed(self, error: str, traceback: str) -> None:
            told.append(error)

    changes: dict[str, Any] = {
        "env__config": {"how": "raise", "at": 25},
        "env__max_failures": 5,
        "stop__iterations": 50,
    }
    with pytest.raises(SimulatorError, match=r"more than env.max_failures = 5(.|\n)*the pump broke") as caught:
        small("tests.toys:Failing", tmp_path, listener=Listener(), **changes)
    assert caught.value.result.exit_code == 3
    run = tmp_path / "run"
    failures = sorted((run / "failures").iterdir())
    assert len(failures) == len(told) > 5
    assert json.loads(failures[0].read_text())["error"] == "RuntimeError: the pump broke"
    assert 0 < int(read_metrics(run / "metrics.csv")[-1]["failures/simulator"]) < len(told) == 6
    assert json.loads((run / "status.json").read_text())["state"] == "failed"
    assert (run / "checkpoints" / "latest").exists()


def test_an_update_that_is_not_finite_ends_with_the_state_from_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from muster.engines.builtin.learning.ppo import PPO

    real, calls = PPO.update, []

    def poisoned(self: PPO, networks: Any, state: Any, batch: Any, *rest: Any) -> Any:
        calls.append(state.parameters.copy())
        if len(calls) == 3:
            batch.advantages[0] = np.nan
        return real(self, networks, state, batch, *rest)

    monkeypatch.setattr(PPO, "update", poisoned)
    with pytest.raises(NonFiniteUpdateError):
        small("tests.toys:Guess", tmp_path, stop__iterations=10)
    saved = np.load(tmp_path / "run" / "checkpoints" / "latest" / "learner.npz")["parameters"]
    assert np.array_equal(saved, calls[-1])
    assert Progress.load(tmp_path / "run" / "checkpoints" / "latest").iteration == 2


def test_a_full_disk_ends_the_run_and_keeps_what_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import muster.runs.checkpoints as checkpoints

    real = checkpoints._write_manifest

    def full(folder: Path) -> None:
        if "00000002" in folder.name:
            Path("/dev/full").write_text("no space for this")
        real(folder)

    monkeypatch.setattr(checkpoints, "_write_manifest", full)
    with pytest.raises(StorageError, match="No space left"):
        small("tests.toys:Guess", tmp_path, checkpoint__every=1)
    monkeypatch.undo()
    assert (tmp_path / "run" / "checkpoints" / "latest").resolve().name == "00000001"
    assert small("tests.toys:Guess", tmp_path, resume=True).iterations == 3


@pytest.mark.parametrize("lost", [1, 4])
def test_lost_workers_are_replaced_and_counted(tmp_path: Path, ray_with_four_cpus: None, lost: int) -> None:
    """Four at once are a lost host; the run goes on all the same."""

    class Killer(Silence):
        def iterated(self, row: dict[str, Any], progress: Progress) -> None:
            if progress.iteration == 2:
                children = psutil.Process(os.getpid()).children(recursive=True)
                workers = [child for child in children if child.name().startswith("ray::Worker")]
                for worker in workers[:lost]:
                    worker.send_signal(signal.SIGKILL)

    changes: dict[str, Any] = {"resources__workers": 4, "resources__env_groups": 4, "listener": Killer()}
    assert small("tests.toys:Guess", tmp_path, stop__iterations=6, **changes).iterations == 6
    rows = read_metrics(tmp_path / "run" / "metrics.csv")
    assert [row["failures/worker"] for row in rows][1:] == ["0", *[str(lost)] * 4]
    assert "worker lost" in [event["event"] for event in read_json_lines(tmp_path / "run" / "events.jsonl")]


def test_with_overlap_it_learns_and_goes_on_after_a_loss(tmp_path: Path, ray_with_four_cpus: None) -> None:
    class Killer(Silence):
        def iterated(self, row: dict[str, Any], progress: Progress) -> None:
            if progress.iteration == 3:
                children = psutil.Process(os.getpid()).children(recursive=True)
                next(child for child in children if child.name().startswith("ray::Worker")).kill()

    changes: dict[str, Any] = {"resources__workers": 2, "resources__overlap": True}
    result = small("tests.toys:Guess", tmp_path, stop__iterations=40, listener=Killer(), **changes)
    rows = read_metrics(tmp_path / "run" / "metrics.csv")
    assert result.iterations == 40
    assert rows[-1]["failures/worker"] == "1"
    assert len({int(row["steps"]) - int(row["iteration"]) * int(rows[0]["steps"]) for row in rows}) == 1
    assert float(rows[-1]["return/mean"]) > float(rows[0]["return/mean"])
    again = small("tests.toys:Guess", tmp_path, stop__iterations=42, resume=True, **changes)
    assert again.iterations == 42


def test_with_overlap_nobody_waits_for_the_slowest(tmp_path: Path, ray_with_four_cpus: None) -> None:
    """The first group's simulators wait for a file that is not there before the third iteration is."""

    class Opener(Silence):
        def iterated(self, row: dict[str, Any], progress: Progress) -> None:
            if progress.iteration == 3:
                (tmp_path / "open").touch()

    result = small(
        "tests.toys:Waiting",
        tmp_path,
        resources__workers=2,
        resources__overlap=True,
        env__config={"index": "{index}", "path": str(tmp_path / "open")},
        stop__iterations=5,
        listener=Opener(),
    )
    assert (result.iterations, result.state) == (5, "finished")
    assert read_metrics(tmp_path / "run" / "metrics.csv")[-1]["failures/simulator"] == "0"


def test_more_workers_than_ray_has_cpus_is_an_error(tmp_path: Path, ray_with_four_cpus: None) -> None:
    with pytest.raises(ClusterError, match=r"asked for 9 workers, but .* has 4 CPUs"):
        small("tests.toys:Guess", tmp_path, resources__workers=9)


def test_more_workers_than_groups_make_more_groups(tmp_path: Path, ray_with_four_cpus: None) -> None:
    noticed: list[str] = []

    class Listener(Silence):
        def noticed(self, message: str) -> None:
            noticed.append(message)

    small("tests.toys:Guess", tmp_path, resources__workers=3, listener=Listener())
    assert noticed == ["resources.env_groups = 3 instead of 2: one for each worker"]
    small("tests.toys:Guess", tmp_path, resources__workers=4, resume=True, stop__iterations=4, listener=Listener())
    assert noticed[-1] == "the run has 3 env groups, so only 3 of 4 workers are used"


def test_an_experiment_object_and_the_default_stop(tmp_path: Path) -> None:
    experiment = Experiment.model_validate({"env": {"id": "CartPole-v1"}, "resources": {"workers": 0}})
    result = train(experiment, overrides={"name": "solved"}, options=TrainOptions(runs_dir=tmp_path))
    assert result.return_mean is not None
    assert result.return_mean >= 475
    assert result.reason.endswith("reached 475")


def test_confidence_interval() -> None:
    assert confidence_interval([1.0]) is None
    interval = confidence_interval([1.0, 2.0, 3.0])
    assert interval is not None
    assert interval == pytest.approx((2 - 4.303 / np.sqrt(3), 2 + 4.303 / np.sqrt(3)))


def test_a_simulator_that_pickles_without_its_state_resumes_with_new_episodes(tmp_path: Path) -> None:
    noticed: list[str] = []

    class Listener(Silence):
        def noticed(self, message: str) -> None:
            noticed.append(message)

    small("tests.toys:Forgetful", tmp_path, listener=Listener())
    assert "EzPickle" in noticed[0]
    result = small("tests.toys:Forgetful", tmp_path, resume=True, stop__iterations=5)
    assert result.iterations == 5
    assert not (tmp_path / "run" / "failures").exists()


def test_a_simulator_whose_code_changed_resumes_with_new_episodes(tmp_path: Path) -> None:
    path = tmp_path / "changing_env.py"
    code = "from tests.toys import Guess\n\n\nclass Helper:\n    pass\n\n\nclass Own(Guess):\n"
    code += "    def __init__(self):\n        super().__init__()\n        self.helper = Helper()\n"
    path.write_text(code)
    small(f"{path}:Own", tmp_path)
    del sys.modules["changing_env"]
    path.write_text(code.replace("Helper", "Assistant"))
    assert small(f"{path}:Own", tmp_path, resume=True, stop__iterations=5).iterations == 5
    events = [event["event"] for event in read_json_lines(tmp_path / "run" / "events.jsonl")]
    assert "episodes restarted" in events


def test_nan_from_reset_is_a_failure_of_the_simulator(tmp_path: Path) -> None:
    with pytest.raises(SimulatorError, match="observation is not finite"):
        small("tests.toys:NanAtReset", tmp_path)


def test_a_failure_while_evaluating_is_recorded_and_the_run_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "fail"

    class Listener(Silence):
        def started(self, start: Any) -> None:
            file.touch()

    config = {"file": str(file)}
    changes: dict[str, Any] = {"env__config": config, "evaluation__every": 1, "listener": Listener()}
    result = small("tests.toys:FailsWhenEvaluated", tmp_path, **changes)
    assert result.iterations == 3
    failure = json.loads((tmp_path / "run" / "failures" / "0001.json").read_text())
    assert "the valve stuck" in failure["traceback"]


def test_failures_while_evaluating_count(tmp_path: Path) -> None:
    file = tmp_path / "fail"

    class Listener(Silence):
        def started(self, start: Any) -> None:
            file.touch()

    changes: dict[str, Any] = {"env__config": {"file": str(file)}, "evaluation__every": 1, "listener": Listener()}
    with pytest.raises(SimulatorError, match=r"failed 2 times, more than env.max_failures = 1; .*the valve stuck"):
        small("tests.toys:FailsWhenEvaluated", tmp_path, env__max_failures=1, **changes)
    rows = read_metrics(tmp_path / "run" / "metrics.csv")
    assert len(rows) == int((tmp_path / "run" / "checkpoints" / "latest").resolve().name) == 2


def test_a_schedule_without_an_end_is_noticed(tmp_path: Path) -> None:
    notices: list[str] = []

    class Listener(Silence):
        def noticed(self, message: str) -> None:
            notices.append(message)

    changes: dict[str, Any] = {"algorithm__lr_schedule": "linear", "listener": Listener()}
    small("tests.toys:Guess", tmp_path, name="planned", **changes)
    assert not [notice for notice in notices if "lr_schedule" in notice]
    small("tests.toys:Guess", tmp_path, name="open", stop__iterations=None, stop__time="1s", **changes)
    assert [notice for notice in notices if "lr_schedule = linear has no effect" in notice]
    notices.clear()
    del changes["algorithm__lr_schedule"]
    small("tests.toys:Guess", tmp_path, name="default", stop__iterations=None, stop__time="1s", **changes)
    assert not [notice for notice in notices if "lr_schedule" in notice]


def test_a_run_that_failed_too_often_can_be_resumed_with_more_patience(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"env__config": {"how": "raise", "at": 25}, "stop__iterations": 12}
    with pytest.raises(SimulatorError):
        small("tests.toys:Failing", tmp_path, env__max_failures=5, **changes)
    result = small("tests.toys:Failing", tmp_path, resume=True, env__max_failures=1000, **changes)
    assert result.iterations == 12


def test_odd_files_in_the_checkpoints_folder_do_not_matter(tmp_path: Path) -> None:
    small("tests.toys:Guess", tmp_path)
    (tmp_path / "run" / "checkpoints" / ".DS_Store").touch()
    assert small("tests.toys:Guess", tmp_path, resume=True, stop__iterations=4).iterations == 4


def test_an_old_run_s_checkpoints_are_never_taken_for_a_new_one_s(tmp_path: Path) -> None:
    small("tests.toys:Guess", tmp_path)
    (tmp_path / "run" / "sources.json").unlink()
    with pytest.raises(InputError, match="a run of that name exists"):
        small("tests.toys:Guess", tmp_path, seed=7)


def test_an_unnamed_run_can_be_resumed_by_its_name(tmp_path: Path) -> None:
    unnamed = {key: value for key, value in SMALL.items() if key != "name"}
    train("tests.toys:Guess", overrides=unnamed, options=TrainOptions(runs_dir=tmp_path))
    options = TrainOptions(runs_dir=tmp_path, resume=True)
    overrides = {"name": "toys-guess-ppo", "stop.iterations": 4}
    assert train("tests.toys:Guess", overrides=overrides, options=options).iterations == 4


def test_an_experiment_object_resumes_as_a_file_does(tmp_path: Path) -> None:
    def experiment(iterations: int, **algorithm: Any) -> Experiment:
        table = {"env": {"id": "tests.toys:Guess"}, "name": "run", "stop": {"iterations": iterations}}
        return Experiment.model_validate({**table, "algorithm": algorithm, "resources": {"workers": 0}})

    train(experiment(2), options=TrainOptions(runs_dir=tmp_path))
    options = TrainOptions(runs_dir=tmp_path, resume=True)
    assert train(experiment(4), options=options).iterations == 4
    with pytest.raises(ExperimentError, match=r"algorithm.lr"):
        train(experiment(5, lr=0.1), options=options)
    with pytest.raises(ExperimentError, match="did you mean 'steps'"):
        train(experiment(5), overrides={"stop.stepz": 3}, options=options)


def test_dates_and_infinities_in_the_config_reach_the_simulator_again(tmp_path: Path) -> None:
    from datetime import date

    from muster.experiment import load_experiment
    from muster.experiment.writing import experiment_toml

    config = {"start": date(2020, 1, 2), "limit": float("inf")}
    experiment = Experiment.model_validate({"env": {"id": "CartPole-v1", "config": config}})
    (tmp_path / "experiment.toml").write_text(experiment_toml(experiment))
    assert load_experiment(tmp_path / "experiment.toml").experiment.env.config == config


def test_a_worker_lost_at_the_moment_of_saving_is_survived(tmp_path: Path, ray_with_four_cpus: None) -> None:
    class Killer(Silence):
        def iterated(self, row: dict[str, Any], progress: Progress) -> None:
            if progress.iteration == 2:
                children = psutil.Process(os.getpid()).children(recursive=True)
                worker = next(child for child in children if child.name().startswith("ray::Worker"))
                worker.kill()
                worker.wait(timeout=10)

    changes: dict[str, Any] = {"resources__workers": 2, "checkpoint__every": 1, "listener": Killer()}
    assert small("tests.toys:Guess", tmp_path, stop__iterations=5, **changes).iterations == 5
    events = read_json_lines(tmp_path / "run" / "events.jsonl")
    assert "a worker was lost" in next(e["reason"] for e in events if e["event"] == "simulators not saved")
