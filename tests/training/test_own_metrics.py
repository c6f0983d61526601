"""Numbers of `info` as metrics, and a schedule of the configuration: the same everywhere, and across a kill."""

from __future__ import annotations

import json
import math
import signal
from pathlib import Path
from typing import Any

import pytest

from muster.errors import ExperimentError
from muster.runs.metrics import read_metrics
from muster.training.listener import Silence
from tests.commands import last_json, muster, policy_bytes, start_muster, timeless_metrics, wait_until
from tests.training.test_training import small

METRICS = {"cost": "sum", "plant.price": "mean", "steps": "last"}
SCHEDULE = {"price": [{"value": 2.0, "steps": 160}, {"value": 4.0, "return": -1.0}]}
SETTINGS: dict[str, Any] = {"metrics": METRICS, "stop__iterations": 8}

FILE = """
metrics = { cost = "sum", "plant.price" = "mean", steps = "last" }

[env]
id = "tests.measured:Metered"
config = { price = 1.0 }

[env.schedule]
price = [{ value = 2.0, steps = 640 }, { value = 4.0, return = -1.0 }]

[algorithm]
train_batch_size = 320

[checkpoint]
every = 2

[stop]
iterations = 14
"""


def prices(run: Path) -> list[str]:
    return [row["schedule/price"] for row in read_metrics(run / "metrics.csv")]


def column(run: Path, name: str) -> list[float]:
    return [float(row[f"metrics/{name}"]) for row in read_metrics(run / "metrics.csv")]


def test_numbers_of_info_become_columns(tmp_path: Path) -> None:
    small("tests.measured:Metered", tmp_path, **SETTINGS)
    assert column(tmp_path / "run", "steps") == [10.0] * 8
    assert column(tmp_path / "run", "plant.price") == [1.0] * 8
    assert all(0 <= cost <= 20 for cost in column(tmp_path / "run", "cost"))
    assert len(set(column(tmp_path / "run", "cost"))) > 4


@pytest.mark.parametrize(("how", "value"), [("sum", 10.0), ("mean", 10.0), ("min", 10.0), ("max", 10.0)])
def test_a_number_that_comes_only_at_the_end_of_an_episode_counts_once(
    how: str, value: float, tmp_path: Path
) -> None:
    config = {"seldom": True}
    small("tests.measured:Metered", tmp_path, metrics={"steps": how}, env__config=config)
    assert column(tmp_path / "run", "steps") == [value] * 3


@pytest.mark.parametrize("mode", ["Disabled", "NextStep", "SameStep"])
def test_a_batch_reports_what_single_simulators_do(mode: str, tmp_path: Path) -> None:
    settings = {**SETTINGS, "stop__iterations": 4}
    small("tests.measured:metered", tmp_path, env__config={"mode": mode}, **settings)
    assert column(tmp_path / "run", "steps") == [10.0] * 4
    assert column(tmp_path / "run", "plant.price") == [1.0] * 4
    assert all(0 < cost <= 20 for cost in column(tmp_path / "run", "cost"))


@pytest.mark.parametrize("method", [None, "set_price"])
@pytest.mark.parametrize("name", ["Metered", "metered"])
def test_a_schedule_changes_the_configuration_of_the_next_episodes(
    name: str, method: str | None, tmp_path: Path
) -> None:
    if name == "metered" and method:
        pytest.skip("a batch is rebuilt")
    small(
        f"tests.measured:{name}",
        tmp_path,
        metrics={"plant.price": "last", "told": "last"},
        env__schedule=SCHEDULE,
        env__schedule_method=method,
        stop__iterations=40,
    )
    run = tmp_path / "run"
    assert prices(run)[:2] == ["", ""], "no price is given in env.config"
    assert prices(run)[2] == "2.0" and prices(run)[-1] == "4.0"
    assert column(run, "plant.price")[-1] == 4.0, "the last 100 episodes all began with the last price"
    assert column(run, "told")[-1] == pytest.approx(2.0 if method else 0.0)
    changes = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert [event["value"] for event in changes if event["event"] == "schedule"] == [2.0, 4.0]


def test_own_metrics_and_a_schedule_are_the_same_on_any_workers_and_across_a_kill(tmp_path: Path) -> None:
    (tmp_path / "exp.toml").write_text(FILE)
    for workers in ("0", "2"):
        done = muster("train", "exp.toml", "--name", workers, "--workers", workers, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    process = start_muster("train", "exp.toml", "--name", "killed", "--workers", "0", cwd=tmp_path)
    runs = tmp_path / "runs"
    wait_until((runs / "killed" / "checkpoints" / "00000004").exists, "the fourth iteration's checkpoint")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = muster("train", "exp.toml", "--name", "killed", "--workers", "2", "--resume", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    names = ("0", "2", "killed")
    assert prices(runs / "0")[0] == "1.0" and prices(runs / "0")[-1] == "4.0"
    assert len({timeless_metrics(runs / name) for name in names}) == 1
    assert len({policy_bytes(runs / name) for name in names}) == 1
    assert len({(runs / name / "evaluations.jsonl").read_text() for name in names}) == 1


def test_evaluations_have_the_metrics_and_the_last_configuration(tmp_path: Path) -> None:
    flags = ["--set", "metrics.plant.price=last", "--set", "env.schedule.price=[{value=9.0, steps=10_000_000}]"]
    flags += ["--stop-iterations", "2", "--name", "run", "--quiet"]
    assert muster("train", "tests.measured:Metered", *flags, cwd=tmp_path).returncode == 0
    result = last_json(muster("evaluate", "run", "--episodes", "2", "--json", cwd=tmp_path))
    assert result["metrics"] == {"plant.price": 9.0}
    [line] = (tmp_path / "runs" / "run" / "evaluations.jsonl").read_text().splitlines()
    assert json.loads(line)["metrics"] == {"plant.price": 9.0}
    assert "plant.price 9" in muster("evaluate", "run", "--episodes", "2", cwd=tmp_path).stdout


def test_a_metric_that_no_step_has_is_named_once(tmp_path: Path) -> None:
    notices: list[str] = []

    class Listener(Silence):
        def noticed(self, message: str) -> None:
            notices.append(message)

    metrics = {"cost": "sum", "cosst": "sum", "name": "last", "many": "mean"}
    small("tests.measured:Metered", tmp_path, metrics=metrics, listener=Listener())
    [notice] = notices
    assert notice.startswith("[metrics] cosst, name, many: no number of that name in info")
    assert [row["metrics/cosst"] for row in read_metrics(tmp_path / "run" / "metrics.csv")] == [""] * 3


@pytest.mark.parametrize(
    ("key", "value", "place"),
    [
        ("metrics", {"cost": "total"}, "metrics.cost"),
        ("env.schedule", {"price": [{"value": 1}]}, "env.schedule"),
        ("env.schedule", {"price": [{"value": 1, "steps": 5, "return": 3}]}, "env.schedule"),
        ("env.schedule", {"price": [{"value": 1, "step": 5}]}, "env.schedule"),
        ("env.schedule", {"price": [{"value": math.nan, "steps": 5}]}, "env.schedule"),
        ("env.schedule", {"price": [{"value": 1, "steps": 5}, {"value": 2, "steps": 4}]}, "steps that increase"),
        ("env.schedule", {"pri\nce": [{"value": 1, "steps": 5}]}, "without line breaks"),
        ("env.schedule", {"prize": [{"value": 1, "steps": 500}]}, "with prize = 1, build fails: TypeError"),
        (
            "env.schedule",
            {"price": [{"value": 1, "steps": 5}, {"value": "low", "return": 9}]},
            "price = 'low', step",
        ),
        ("metrics", {"co\nst": "sum"}, "without line breaks"),
    ],
)
def test_settings_that_cannot_be_are_refused(key: str, value: Any, place: str, tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match=place):
        small("tests.measured:Metered", tmp_path, **{key.replace(".", "__"): value})
