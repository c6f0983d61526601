"""`import muster`: classes of the caller's own, runs as objects, evaluation, short representations."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster
from muster.errors import InputError
from tests.commands import muster as muster_command
from tests.commands import policy_bytes, timeless_metrics
from tests.measured import Alternating, Metered, constant_price
from tests.toys import Guess

SMALL: dict[str, Any] = {
    "algorithm.train_batch_size": 80,
    "algorithm.minibatch_size": 40,
    "resources.env_groups": 2,
    "resources.workers": 0,
    "model.hidden": [8],
    "stop.iterations": 3,
}


def trained(folder: Path, simulator: Any = Guess, **changes: Any) -> muster.TrainResult:
    options = muster.TrainOptions(runs_dir=folder, resume=changes.pop("resume", False))
    return muster.train(simulator, overrides={**SMALL, **changes}, options=options)


def test_what_there_is_can_be_completed_and_is_there() -> None:
    assert {"train", "evaluate", "runs", "Run", "sweep", "Callback"} <= set(dir(muster))
    assert all(getattr(muster, name) is not None for name in dir(muster))
    assert callable(muster.runs) and callable(muster.training)


def test_a_class_that_can_be_imported_is_named(tmp_path: Path) -> None:
    run = muster.Run(trained(tmp_path))
    assert run.experiment.env.id == "tests.toys:Guess"
    assert run.name == "toys-guess-ppo" and not (tmp_path / ".carried").exists()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_class_that_cannot_be_imported_is_carried(
    workers: int, tmp_path: Path, ray_with_four_cpus: None
) -> None:
    class Local(Guess):
        """Only this function knows it."""

    result = trained(tmp_path, Local, name="run", **{"resources.workers": workers})
    assert result.state == "finished"
    assert trained(tmp_path, Guess, name="same").return_mean == result.return_mean
    assert policy_bytes(tmp_path / "run") == policy_bytes(tmp_path / "same")
    [file] = (tmp_path / ".carried").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    done = muster_command("evaluate", "run", "--episodes", "2", "--runs-dir", ".", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_carried_class_may_change_before_a_resume_as_a_file_may(tmp_path: Path) -> None:
    def make(note: str) -> Any:
        class Local(Guess):
            """A class that is defined again, as a notebook's cell is."""

            written = note

        return Local

    trained(tmp_path, make("first"), name="run")
    again = trained(tmp_path, make("second"), name="run", resume=True, **{"stop.iterations": 5})
    assert again.iterations == 5
    with pytest.raises(InputError, match=r"env\.id"):
        trained(tmp_path, Guess, name="run", resume=True, **{"stop.iterations": 6})


@pytest.mark.parametrize("thing", [Guess(), 3, None])
def test_an_object_is_no_simulator_to_train(thing: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected an experiment file, .* or a class or function"):
        trained(tmp_path, thing)


def test_a_run_shows_itself_in_a_line_and_its_rows_as_a_frame(tmp_path: Path) -> None:
    result = trained(tmp_path, Metered, name="metered", **{"metrics.cost": "sum", "evaluation.every": 1})
    run = muster.Run("metered", runs_dir=tmp_path)
    assert [one.name for one in muster.runs(tmp_path)] == ["metered"]
    assert repr(run).startswith("Run('metered', finished, 240 steps, return ") and len(repr(run)) < 80
    frame = run.metrics
    assert list(frame["steps"]) == [80, 160, 240] and frame["metrics/cost"].notna().all()
    assert list(run.evaluations["iteration"]) == [1, 2, 3]
    assert result.return_mean == run.status.return_mean
    policy = run.policy("latest")
    assert repr(policy) == "MLPPolicy(3-8-3 tanh)" and policy.act(1) in range(3)


def test_a_policy_is_loaded_by_the_name_of_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = trained(tmp_path / "runs", name="named")
    monkeypatch.chdir(tmp_path)
    observation = 2
    actions = {
        muster.load_policy(given).act(observation)
        for given in ("named", result, muster.Run("named"), result.run, tmp_path / "runs/named/checkpoints/latest")
    }
    assert len(actions) == 1
    with pytest.raises(InputError, match="nameless"):
        muster.load_policy("nameless")


@pytest.mark.parametrize("rule", [constant_price, Alternating, lambda observation: 0, "random"])
def test_a_policy_is_compared_with_a_function(rule: Any, tmp_path: Path) -> None:
    result = trained(tmp_path, Metered, name="run", **{"metrics.cost": "sum"})
    found = muster.evaluate(result, 4, baseline=rule)
    assert found.policy.episodes == 4 and found.baseline is not None
    assert found.wins is not None and 0 <= found.wins <= 4
    assert repr(found).startswith("RunEvaluation(return ") and "; baseline " in repr(found)
    if rule is constant_price:
        assert found.baseline.return_mean == 10 and found.wins == 0
    assert muster.Run(result).evaluate(4).policy.returns == found.policy.returns


def test_a_callback_overrides_what_it_wants_to_hear(tmp_path: Path) -> None:
    class Heard(muster.Callback):
        def __init__(self) -> None:
            self.rows: list[int] = []

        def iterated(self, row: dict[str, Any], progress: Any) -> None:
            self.rows.append(row["iteration"])

    methods = [node for node in vars(muster.Callback) if not node.startswith("_")]
    assert len(methods) == 5
    heard = Heard()
    options = muster.TrainOptions(runs_dir=tmp_path)
    muster.train(Guess, overrides=SMALL, options=options, listener=heard)
    assert heard.rows == [1, 2, 3]


def test_the_iterator_takes_a_class_too(tmp_path: Path) -> None:
    options = muster.TrainOptions(runs_dir=tmp_path)
    rows = list(muster.Training(Guess, overrides={**SMALL, "name": "stepped"}, options=options))
    assert len(rows) == 3
    trained(tmp_path, Guess, name="straight")
    assert timeless_metrics(tmp_path / "stepped") == timeless_metrics(tmp_path / "straight")


def test_the_public_names_are_those_that_type_checkers_see() -> None:
    tree = ast.parse(Path(muster.__file__).read_text())
    checked = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.asname or alias.name for node in ast.walk(checked) for alias in getattr(node, "names", [])}
    assert seen | {"__version__"} == set(muster.__all__)


def test_numbers_come_back_as_numbers(tmp_path: Path) -> None:
    frame = muster.Run(trained(tmp_path)).metrics
    assert frame["iteration"].dtype == np.int64 and frame["return/mean"].dtype == np.float64


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"episodes": 0}, "episodes = 0"),
        ({"seed": -1}, "seed = -1"),
        ({"baseline": 3}, "baseline = 3"),
        ({"checkpoint": 99}, "99"),
    ],
)
def test_arguments_that_cannot_be_are_refused(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    result = trained(tmp_path, Guess, name="run")
    assert muster.evaluate(result, 2, checkpoint=result.iterations).policy.episodes == 2
    with pytest.raises(InputError, match=words):
        muster.evaluate(result, **{"episodes": 2, **options})


def test_a_folder_that_cannot_be_read_hides_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained(tmp_path, Guess, name="one")
    (tmp_path / "locked").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "locked")
    assert [run.name for run in muster.runs(tmp_path)] == ["one"]
