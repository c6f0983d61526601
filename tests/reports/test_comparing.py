"""`muster compare`: what it says of runs beside each other, and the files it writes."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

from tests.commands import Ended, muster_here
from tests.runs.tiny import train_tiny

SEEDS = range(5)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two groups of five seeds, of which the second has 100 more of return, and a run by itself."""
    path = tmp_path_factory.mktemp("compared")
    train_tiny(path, "alone")
    for group, more in (("low", 0.0), ("high", 100.0)):
        for seed in SEEDS:
            run = path / group / f"seed-{seed}"
            shutil.copytree(path / "alone", run, symlinks=True)
            rewrite_returns(run / "metrics.csv", [20.0 + more / 2 + seed, 30.0 + more + seed])
            text = (run / "experiment.toml").read_text()
            rate = "lr = 0.001" if group == "high" else "lr = 0.0003"
            (run / "experiment.toml").write_text(text.replace("lr = 0.0003", rate))
    return path


def rewrite_returns(path: Path, returns: list[float]) -> None:
    rows = list(csv.reader(io.StringIO(path.read_text())))
    for row, value in zip(rows[1:], returns, strict=True):
        row[rows[0].index("return/mean")] = str(value)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    path.write_text(text.getvalue())


def compared(runs: Path, *arguments: str | Path) -> Ended:
    done = muster_here("compare", *arguments, "--runs-dir", runs)
    assert done.code == 0, done.err
    return done


def test_groups_are_compared_by_their_seeds(runs: Path) -> None:
    found = json.loads(compared(runs, "low", "high", "--json").out)
    low, high = found["groups"]
    assert (low["final_return"], high["final_return"]) == (32.0, 132.0)
    assert low["low"] < 32 < low["high"] < high["low"]
    assert high["probability_of_improvement"] == 1.0
    assert high["verdict"] == "better than low"
    assert low["steps_to_target"] is None
    assert high["steps_to_target"] > 0
    assert found["differences"] == {"algorithm.lr": ["0.0003", "0.001"]}


def test_what_differs_is_printed(runs: Path) -> None:
    assert "\nwhat differs:\n  algorithm.lr: 0.0003 | 0.001\n" in compared(runs, "low", "high").out
    assert "what differs" not in compared(runs, "low", "alone").out


def test_episodes_that_differ_between_seeds_are_pointed_out(runs: Path, tmp_path: Path) -> None:
    note = (
        "Each seed was evaluated in episodes of its own; `muster evaluate GROUP` uses the same episodes for all."
    )
    for group in ("low", "high"):
        shutil.copytree(runs / group, tmp_path / group, symlinks=True)
        for seed in SEEDS:
            run = tmp_path / group / f"seed-{seed}"
            text = (run / "experiment.toml").read_text()
            (run / "experiment.toml").write_text(text.replace("seed = 0\n", f"seed = {seed}\n", 1))
            (run / "evaluations.jsonl").write_text('{"iteration": 1, "steps": 64, "return_mean": 1.0}\n')
    assert note in json.loads(compared(tmp_path, "low", "high", "--json").out)["notes"]
    assert note not in json.loads(compared(tmp_path, "low/seed-0", "high/seed-0", "--json").out)["notes"]
    for evaluations in tmp_path.glob("low/seed-*/evaluations.jsonl"):
        evaluations.unlink()
    assert note not in json.loads(compared(tmp_path, "low", "high", "--json").out)["notes"]


def test_a_single_run_has_no_interval_and_too_few_seeds(runs: Path) -> None:
    done = compared(runs, "low", "alone")
    assert "alone: too few seeds to tell: alone has 1 seed; take at least 5" in done.out
    [_, alone] = json.loads(compared(runs, "low", "alone", "--json").out)["groups"]
    assert (alone["low"], alone["high"]) == (None, None)


def test_groups_that_are_alike_have_no_clear_difference(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "low", tmp_path / "again", symlinks=True)
    assert "again: no clear difference from low" in compared(runs, "low", tmp_path / "again").out


def test_different_simulators_are_pointed_out(runs: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(runs / "alone", other, symlinks=True)
    text = (other / "experiment.toml").read_text()
    (other / "experiment.toml").write_text(text.replace("CartPole-v1", "Acrobot-v1"))
    done = compared(runs, "alone", other)
    assert "returns cannot be compared: alone in CartPole-v1, other in Acrobot-v1" in done.out
    assert "other: another simulator" in done.out
    assert "target" not in done.out.partition("other: another")[2]


def test_the_same_simulator_in_another_folder_is_compared(runs: Path, tmp_path: Path) -> None:
    for name in ("here", "there"):
        shutil.copytree(runs / "alone", tmp_path / name, symlinks=True)
        path = tmp_path / name / "experiment.toml"
        path.write_text(path.read_text().replace('"CartPole-v1"', f'"/home/{name}/pole.py:Pole"'))
    done = compared(runs, tmp_path / "here", tmp_path / "there")
    assert "cannot be compared" not in done.out


def test_a_comparison_is_written_as_page_picture_and_table(runs: Path, tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    for name in ("c.html", "c.png", "c.csv"):
        assert f"wrote {tmp_path / name}" in compared(runs, "low", "high", "-o", tmp_path / name).out
    assert (tmp_path / "c.png").read_bytes()[:4] == b"\x89PNG"
    page = (tmp_path / "c.html").read_text()
    assert "Comparison of low and high" in page
    assert "<td>algorithm.lr</td><td>0.0003</td><td>0.001</td>" in page
    [low, high] = csv.DictReader(io.StringIO((tmp_path / "c.csv").read_text()))
    assert (low["group"], high["group"], high["final_return"]) == ("low", "high", "132.0")


def test_mistakes_are_explained(runs: Path, tmp_path: Path) -> None:
    refused = muster_here("compare", "low", "--runs-dir", runs)
    assert (refused.code, "1 run given; expected 2 to" in refused.err) == (2, True)
    refused = muster_here("compare", "low", "nosuch", "--runs-dir", runs)
    assert (refused.code, "no run 'nosuch'" in refused.err) == (2, True)
    refused = muster_here("compare", "low", "high", "-o", tmp_path / "c.txt", "--runs-dir", runs)
    assert (refused.code, ".csv" in refused.err) == (2, True)
