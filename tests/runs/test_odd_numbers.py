"""Whatever numbers are in a run folder, every command that reads it does what it can."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.experiment.quantities import format_duration
from tests.commands import muster_here
from tests.runs.tiny import train_tiny

pytest.importorskip("plotly")
pytest.importorskip("tensorboard")
BEYOND_FLOATS = 10**400
LARGEST = "1.79e308"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_tiny(tmp_path_factory.mktemp("runs"), "one", **{"evaluation.every": 1, "evaluation.episodes": 1})


def cells(column: str, *values: str) -> Callable[[Path], None]:
    """Return what replaces a column of the metrics."""

    def replace(run: Path) -> None:
        with (run / "metrics.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        for row, value in zip(rows, values, strict=True):
            row[column] = value
        with (run / "metrics.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    return replace


def line(name: str, **values: object) -> Callable[[Path], None]:
    """Return what begins a file with a line."""

    def add(run: Path) -> None:
        file = run / name
        file.parent.mkdir(parents=True, exist_ok=True)
        before = file.read_text() if file.exists() else ""
        file.write_text(json.dumps(values) + "\n" + before)

    return add


def usage(**values: object) -> Callable[[Path], None]:
    """Return what adds a job with what it used."""

    def add(run: Path) -> None:
        (run / "job/usage").mkdir(parents=True)
        (run / "job/usage/1-host-1.json").write_text(json.dumps(values))
        order = {"kind": "train", "cluster": "c", "scheduler": "slurm", "command": ["x"], "cpus": 1}
        (run / "job/job.json").write_text(json.dumps(order))
        links = [{"event": event, "job_id": "1", "link": 1, "time": 1.0} for event in ("started", "ended")]
        (run / "jobs.jsonl").write_text("".join(json.dumps(link) + "\n" for link in links))

    return add


def evaluation(**values: object) -> Callable[[Path], None]:
    usual = {"iteration": 1, "steps": 64, "episodes": 1, "return_mean": 1.0, "return_std": 0.0, "length_mean": 1.0}
    return line("evaluations.jsonl", **{**usual, **values})


ODD: dict[str, Callable[[Path], None]] = {
    "time nan": cells("time/total", "1", "nan"),
    "time inf": cells("time/total", "1", "inf"),
    "time large": cells("time/total", LARGEST, LARGEST),
    "constant large": cells("policy/entropy", LARGEST, LARGEST),
    "returns apart": cells("return/mean", LARGEST, f"-{LARGEST}"),
    "return beyond": evaluation(return_mean=BEYOND_FLOATS),
    "deviation beyond": evaluation(return_std=BEYOND_FLOATS),
    "steps beyond": evaluation(steps=BEYOND_FLOATS),
    "steps of 70 bits": evaluation(steps=2**70),
    "nan": evaluation(steps=float("nan"), return_mean=float("nan")),
    "event beyond": line("events.jsonl", time=BEYOND_FLOATS, event="started", iteration=0),
    "event late": line("events.jsonl", time=1e18, event="started", iteration=0),
    "event nan": line("events.jsonl", time=float("nan"), event="started", iteration=0),
    "bring-up beyond": line("launches/a/bring-up.jsonl", time=BEYOND_FLOATS, event="x"),
    "usage beyond": usage(cpu_seconds=BEYOND_FLOATS, memory=BEYOND_FLOATS),
    "usage nan": usage(cpu_seconds=float("nan"), memory=float("nan")),
}


@pytest.mark.parametrize("odd", ODD)
def test_a_run_with_odd_numbers_can_be_read(odd: str, original: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "odd"
    shutil.copytree(original, run, symlinks=True)
    ODD[odd](run)
    commands: tuple[list[str | Path], ...] = (
        ["runs", "--runs-dir", run.parent],
        ["show", run],
        ["plot", run],
        ["report", run, "-o", tmp_path / "report.html"],
        ["compare", run, original],
        ["track", run, "--to", "tensorboard", "--at", tmp_path / "events"],
    )
    for command in commands:
        done = muster_here(*command)
        assert done.code == 0, done.err


def test_a_run_without_metrics_is_compared(original: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "odd"
    shutil.copytree(original, run, symlinks=True)
    (run / "metrics.csv").write_text("")
    done = muster_here("compare", run, original)
    assert done.code == 0, done.err


def test_a_time_that_is_none_is_written_so() -> None:
    assert [format_duration(seconds) for seconds in (float("nan"), float("inf"), -1e308)] == ["-"] * 3
    assert format_duration(90) == "1m30s"
