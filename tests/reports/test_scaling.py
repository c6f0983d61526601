"""Speed-ups: the law through measurements, and what it recommends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster.reports.scaling import Scaling
from muster.training.scaling_runs import Measured
from tests.commands import muster


def rows(serial: float, parallel: float, workers: list[int]) -> list[Measured]:
    return [Measured(w, 1000.0, serial + parallel / w, parallel / w, serial, 0.0) for w in workers]


@pytest.mark.parametrize(("serial", "parallel"), [(0.0, 2.0), (0.5, 1.5), (2.0, 0.0)])
def test_the_law_finds_the_serial_part(serial: float, parallel: float) -> None:
    scaling = Scaling.of(rows(serial, parallel, [1, 2, 4, 8]))
    assert scaling.serial == pytest.approx(serial, abs=1e-9)
    assert scaling.parallel == pytest.approx(parallel, abs=1e-9)
    assert scaling.serial_fraction == pytest.approx(serial / (serial + parallel))


def test_only_well_used_workers_are_recommended() -> None:
    scaling = Scaling.of(rows(0.25, 1.0, [4, 1, 2, 8]))
    assert [row.workers for row in scaling.measured] == [1, 2, 4, 8]
    assert scaling.efficiency(scaling.measured[1]) == pytest.approx(1.25 / 0.75 / 2)
    assert scaling.recommended.workers == 2
    assert scaling.gain_of_doubling == pytest.approx(0.375 / 0.3125)


def test_training_in_one_process_is_measured_beside_the_law_and_beaten_only_by_what_is_clearly_faster() -> None:
    alone = Measured(0, 1000.0, 1.0, 0.5, 0.5, 0.0)
    scaling = Scaling.of([alone, *rows(0.5, 0.45, [1, 2])])
    assert scaling.serial == pytest.approx(0.5)
    assert scaling.recommended is alone, "one worker is 1.05 times as fast, two are used to 70 %"
    assert scaling.gain_of_doubling is None, "two numbers of workers are no forecast"


def test_a_law_that_misses_what_was_measured_is_no_forecast() -> None:
    measured = rows(0.5, 1.5, [1, 2, 4, 8])
    assert Scaling.of(measured).gain_of_doubling is not None
    slow = Measured(8, 1000.0, 3.0, 1.0, 1.0, 0.0)
    assert Scaling.of([*measured[:3], slow]).gain_of_doubling is None


def test_scale_measures_and_draws(tmp_path: Path) -> None:
    plot = tmp_path / "scaling.png"
    flags = ["--workers", "0,1", "--seconds", "0.1", "-o", str(plot), "--json"]
    done = muster("scale", "tests.toys:Guess", *flags, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    table = json.loads(done.stdout.splitlines()[-1])
    assert [row["workers"] for row in table["rows"]] == [0, 1]
    assert all(row["steps_per_second"] > 0 for row in table["rows"])
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == [plot]


def test_a_picture_that_cannot_be_drawn_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    done = muster("scale", "CartPole-v1", "-o", "nowhere/x.png", cwd=tmp_path)
    assert done.returncode == 2
    assert "--output nowhere/x.png: the folder nowhere is not there" in done.stderr


def test_numbers_that_are_none_are_refused(tmp_path: Path) -> None:
    done = muster("scale", "CartPole-v1", "--workers", "1,two", cwd=tmp_path)
    assert done.returncode == 2
    assert "--workers 1,two: expected different numbers up to 100000 separated by commas" in done.stderr


@pytest.mark.parametrize(
    ("nodes", "words"), [("1,2", "there is no cluster to measure"), ("0,1", "1 host or more"), ("x", "--nodes x")]
)
def test_hosts_that_cannot_be_measured(nodes: str, words: str, tmp_path: Path) -> None:
    done = muster("scale", "CartPole-v1", "--nodes", nodes, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
